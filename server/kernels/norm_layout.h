// How normalizations see an array.
#ifndef CHX_SERVER_KERNELS_NORM_LAYOUT_H_
#define CHX_SERVER_KERNELS_NORM_LAYOUT_H_

#include <cstdint>
#include <limits>

#include "ops/array_spec.h"
#include "ops/attr.h"

namespace chx::server::kernels {

// What moments, weight and bias are computed in.
inline Dtype MomentsDtype(Dtype dtype) {
  return dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
}

// Of layer_norm and rms_norm: by default that of the dtype.
inline double RowsEps(const AttrValue& eps, Dtype dtype) {
  return eps.has_value() ? eps.AsFloat() : EpsilonOf(dtype);
}

// An array as rows of n elements.
struct RowSizes {
  int64_t rows = 1;
  int64_t n = 1;
};

// Of layer_norm and rms_norm. `normalized`: the last axes, of which there is one by default.
inline RowSizes LastAxes(const Shape& shape, const AttrValue& normalized) {
  const int axes = normalized.has_value() ? static_cast<int>(normalized.ints().size()) : 1;
  RowSizes sizes;
  for (int d = 0; d < shape.size(); ++d) {
    (d < shape.size() - axes ? sizes.rows : sizes.n) *= shape[d];
  }
  return sizes;
}

// An array as (outer, channels, inner), of which the first and the last are normalized over.
struct NormLayout {
  int64_t outer = 1;
  int64_t channels = 1;
  int64_t inner = 1;

  double count() const { return static_cast<double>(outer) * static_cast<double>(inner); }
};

// `axes` is a bit mask. False if they are not of that form.
inline bool MakeNormLayout(const Shape& shape, uint32_t axes, NormLayout* layout) {
  int d = 0;
  const auto reduced = [&] { return (axes >> d & 1) != 0; };
  for (; d < shape.size() && reduced(); ++d) layout->outer *= shape[d];
  for (; d < shape.size() && !reduced(); ++d) layout->channels *= shape[d];
  for (; d < shape.size() && reduced(); ++d) layout->inner *= shape[d];
  return d == shape.size();
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_NORM_LAYOUT_H_
