// Roots whose gradient at zero is zero instead of infinite, as norms need.
#ifndef CHX_OPS_DEFS_COMMON_ROOT_OR_ZERO_H_
#define CHX_OPS_DEFS_COMMON_ROOT_OR_ZERO_H_

#include "ops/defs/common/expressions.h"

namespace chx {

// root(x) where x is not 0, else 0.
template <typename Root>
Value RootOrZero(Value x, Root root) {
  OpContext& c = *x.context();
  const Value zero = c.Apply("equal", {x, 0});
  return Where(zero, 0, root(Where(zero, 1, x)));
}

inline Value SqrtOrZero(Value x) {
  return RootOrZero(x, [](Value y) { return y.context()->Apply("sqrt", {y}); });
}

}  // namespace chx

#endif  // CHX_OPS_DEFS_COMMON_ROOT_OR_ZERO_H_
