// What compositions and gradients of linear algebra are made of: matrices are the last two axes.
#ifndef CHX_OPS_DEFS_COMMON_MATRICES_H_
#define CHX_OPS_DEFS_COMMON_MATRICES_H_

#include <cstdint>
#include <initializer_list>
#include <utility>

#include "ops/defs/common/expressions.h"

namespace chx::matrices {

// Each matrix transposed.
inline Value T(Value x) {
  Ints axes;
  for (int i = 0; i < x.ndim(); ++i) axes.push_back(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return x.context()->Apply("transpose", {x}, {{"axes", AttrValue(axes)}});
}

inline Value MatMul(Value a, Value b) { return a.context()->Apply("matmul", {a, b}); }

inline Value Eye(OpContext& c, int64_t n, Dtype dtype) {
  return c.Apply("eye", {}, {{"N", n}, {"dtype", dtype}});
}

// Ones below the diagonal.
inline Value StrictlyLower(OpContext& c, int64_t n, Dtype dtype) {
  const Value index = c.Apply("arange", {}, {{"start", Scalar(n)}});
  const Value lower = c.Apply("greater", {ExpandDims(index, -1), index});
  return Cast(lower, dtype);
}

inline Value Symmetric(Value x) { return (x + T(x)) * 0.5; }

// x_j - x_i off the diagonal, inverted; zero on it.
inline Value InverseGaps(OpContext& c, Value x) {
  const Value eye = Eye(c, x.shape().back(), x.dtype());
  return (Value(1) - eye) / (ExpandDims(x, -2) - ExpandDims(x, -1) + eye);
}

// matrix with its columns scaled by `factors`.
inline Value ScaleColumns(Value matrix, Value factors) { return matrix * ExpandDims(factors, -2); }

// What is composed of several operators is rounded once, at its end.
inline Value Wide(Value x) { return Cast(x, PromoteTypes(x.dtype(), Dtype::kFloat32)); }

inline Value Inverse(Value a) { return a.context()->Apply("inv", {a}); }

inline Value Sum(Value x, std::initializer_list<int64_t> axes) {
  return x.context()->Apply("sum", {x}, {{"axis", AttrValue(Ints(axes))}});
}

}  // namespace chx::matrices

#endif  // CHX_OPS_DEFS_COMMON_MATRICES_H_
