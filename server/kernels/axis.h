// Arrays seen along one of their axes, and the indices into such an axis; for both backends.
#ifndef CHX_SERVER_KERNELS_AXIS_H_
#define CHX_SERVER_KERNELS_AXIS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/kernels/hd.h"

namespace chx::server::kernels {

// An array seen as (before, size, after), with the axis in the middle. Plain data.
struct Lanes {
  int64_t before = 1;
  int64_t size = 1;
  int64_t after = 1;

  CHX_HD int64_t count() const { return before * after; }
  // The first element of a lane; its elements are `after` apart.
  CHX_HD int64_t First(int64_t lane) const { return lane / after * size * after + lane % after; }
  CHX_HD int64_t LaneOf(int64_t element) const {
    return element / (size * after) * after + element % after;
  }
};

// `axis` is a dimension of the shape.
inline Lanes LanesAlong(const Shape& shape, int axis) {
  Lanes lanes;
  for (int d = 0; d < axis; ++d) lanes.before *= shape[d];
  lanes.size = shape[axis];
  for (int d = axis + 1; d < shape.size(); ++d) lanes.after *= shape[d];
  return lanes;
}

// An absent axis is the only one of the flattened array, and so is each of an array without
// dimensions. An error if there is no such axis.
inline absl::StatusOr<Lanes> LanesOf(absl::string_view op, const Shape& shape,
                                     const AttrValue& axis) {
  if (!axis.has_value() || shape.size() == 0) {
    Lanes lanes;
    lanes.size = NumElements(shape);
    return lanes;
  }
  CHX_ASSIGN_OR_RETURN(const int normal, rules::NormalizeAxis(op, axis.AsInt(), shape.size()));
  return LanesAlong(shape, normal);
}

// What becomes of indices outside of the axis; numbered as the words of take's attribute.
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

// For kRaise, wherever it was found.
inline absl::Status BadIndexError(absl::string_view op, int64_t index, int64_t size) {
  return IndexError("[", op, "] index ", index, " is out of bounds for an axis of size ", size);
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_AXIS_H_
