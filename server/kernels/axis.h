// The slices of an array along an axis, and the indices into an axis.
#ifndef CHX_SERVER_KERNELS_AXIS_H_
#define CHX_SERVER_KERNELS_AXIS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// The one-dimensional slices of a dense array along an axis. The array is seen as (before, size,
// after), with the axis in the middle. Plain data, for host and device.
struct AxisSlices {
  int64_t before = 1;
  int64_t size = 1;
  int64_t after = 1;

  CHX_HD int64_t count() const { return before * after; }
  // The first element of a slice, whose elements are `after` apart.
  CHX_HD int64_t First(int64_t slice) const { return slice / after * size * after + slice % after; }
  CHX_HD int64_t SliceOf(int64_t element) const {
    return element / (size * after) * after + element % after;
  }
};

// `axis` is a dimension of the shape.
inline AxisSlices SlicesAlong(const Shape& shape, int axis) {
  AxisSlices slices;
  for (int d = 0; d < axis; ++d) slices.before *= shape[d];
  slices.size = shape[axis];
  for (int d = axis + 1; d < shape.size(); ++d) slices.after *= shape[d];
  return slices;
}

// Along an operator's axis. If it is absent, or the array has no dimensions, the flattened array is
// the only slice. An error if there is no such axis.
inline absl::StatusOr<AxisSlices> SlicesOf(absl::string_view op, const Shape& shape,
                                           const AttrValue& axis) {
  if (!axis.has_value() || shape.size() == 0) {
    AxisSlices slices;
    slices.size = NumElements(shape);
    return slices;
  }
  CHX_ASSIGN_OR_RETURN(const int normal, rules::NormalizeAxis(op, axis.AsInt(), shape.size()));
  return SlicesAlong(shape, normal);
}

// How indices out of bounds are treated; numbered as the values of take's attribute.
enum class IndexMode : int64_t { kRaise = 0, kWrap = 1, kClip = 2 };

// *index becomes a position in [0, size), where size > 0 (or the mode is kRaise). False, and 0, if
// it names none.
CHX_HD bool ResolveIndex(IndexMode mode, int64_t size, int64_t* index) {
  if (mode == IndexMode::kWrap) {
    *index %= size;
  } else if (mode == IndexMode::kClip) {
    *index = *index < 0 ? 0 : *index < size ? *index : size - 1;
  } else if (*index < -size || *index >= size) {
    *index = 0;
    return false;
  }
  if (*index < 0) *index += size;
  return true;
}

// The error of kRaise.
inline absl::Status BadIndexError(absl::string_view op, int64_t index, int64_t size) {
  return IndexError("[", op, "] index ", index, " is out of bounds for an axis of size ", size);
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_AXIS_H_
