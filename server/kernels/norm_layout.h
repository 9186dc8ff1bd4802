// How batch normalization sees an array.
#ifndef CHX_SERVER_KERNELS_NORM_LAYOUT_H_
#define CHX_SERVER_KERNELS_NORM_LAYOUT_H_

#include <cstdint>

#include "ops/array_spec.h"

namespace chx::server::kernels {

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
