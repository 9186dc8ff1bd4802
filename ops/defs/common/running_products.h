// Products along an axis that leave one element out. There is no division: the products and their
// gradients of every order are correct where elements are zero.
#ifndef CHX_OPS_DEFS_COMMON_RUNNING_PRODUCTS_H_
#define CHX_OPS_DEFS_COMMON_RUNNING_PRODUCTS_H_

#include "ops/op_context.h"

namespace chx {

// `seed`, of x's shape but for 1 along the axis, times the product of all the others. Takes
// 2 log2(n) steps over n / 2, n / 4, ... elements.
Value TimesTheOthers(Value x, Value seed, int axis);

// The gradient of a's running products y, with `gy`; all of one shape. Takes log2(n) steps over n
// elements.
Value RunningProductGradient(Value a, Value y, Value gy, int axis);

}  // namespace chx

#endif  // CHX_OPS_DEFS_COMMON_RUNNING_PRODUCTS_H_
