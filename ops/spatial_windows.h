// Windows that slide over spatial dimensions, in convolution and pooling: how many there are.
#ifndef CHX_OPS_SPATIAL_WINDOWS_H_
#define CHX_OPS_SPATIAL_WINDOWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"

namespace chx {

// One number for each spatial dimension from an attribute that has one for each, or one for all;
// an error names `what`, if numbers are below `least` or above 2^31.
absl::Status ExpandSpatial(absl::string_view op, absl::string_view what, const AttrValue& attr,
                           int ndim, int64_t least, Dims* dims);

// How many windows of `kernel` fit into `size` elements with `pad` more on either side, `stride`
// apart; with `cover_all` windows may reach beyond, so that each element is in one. 0 if none fits.
int64_t WindowCount(int64_t size, int64_t kernel, int64_t stride, int64_t pad, bool cover_all);

// The above for each of a shape's spatial dimensions, which are all but the first two. An error if
// a dimension has no window.
absl::StatusOr<Dims> WindowCounts(absl::string_view op, const Shape& shape, const Dims& kernel,
                                  const Dims& stride, const Dims& pad, bool cover_all);

// What an average over a window counts of the padding: nothing, or zeros.
enum class PadMode : int64_t { kIgnore, kZero };

inline Dims SpatialOf(const Shape& shape) { return Dims(shape.span().subspan(2)); }

// (first, second, spatial...).
Shape WithSpatial(int64_t first, int64_t second, const Dims& spatial);

}  // namespace chx

#endif  // CHX_OPS_SPATIAL_WINDOWS_H_
