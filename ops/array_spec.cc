#include "ops/array_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/error.h"

namespace chx {

std::string Dims::ToString() const {
  if (size_ == 1) return absl::StrCat("(", values_[0], ",)");
  return absl::StrCat("(", absl::StrJoin(span(), ", "), ")");
}

absl::Status CheckShape(absl::string_view op, absl::Span<const int64_t> shape, Dtype dtype) {
  if (shape.size() > kMaxNdim) {
    return DimensionError("[", op, "] expects at most ", kMaxNdim, " dimensions, got ",
                          shape.size());
  }
  constexpr int64_t kMaxBytes = (int64_t{1} << 62) - 1;  // two of them can be added
  int64_t bytes = ItemSize(dtype);
  for (int64_t dim : shape) {
    if (dim < 0) {
      return DimensionError("[", op, "] expects non-negative dimensions, got ",
                            Dims(shape).ToString());
    }
    if (dim == 0) continue;
    if (bytes > kMaxBytes / dim) {
      return DimensionError("[", op, "] expects an array of less than 2^62 bytes, got shape ",
                            Dims(shape).ToString());
    }
    bytes *= dim;
  }
  return absl::OkStatus();
}

Strides ContiguousStrides(const Shape& shape, int64_t item_size) {
  Strides strides(shape.size(), 0);
  int64_t stride = item_size;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  // NumPy 1.24 gives every stride of an array without elements as 0.
  if (stride == 0) return Strides(shape.size(), 0);
  return strides;
}

bool BroadcastInto(Shape* a, const Shape& b) {
  if (*a == b) return true;
  const int ndim = std::max(a->size(), b.size());
  Shape out(ndim, 1);
  for (int i = 1; i <= ndim; ++i) {
    const int64_t da = i <= a->size() ? (*a)[a->size() - i] : 1;
    const int64_t db = i <= b.size() ? b[b.size() - i] : 1;
    if (da != db && da != 1 && db != 1) return false;
    out[ndim - i] = da == 1 ? db : da;
  }
  *a = out;
  return true;
}

bool ArraySpec::is_contiguous() const {
  int64_t stride = item_size();
  bool in_order = true;
  for (int i = ndim() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    in_order = in_order && (shape[i] == 1 || strides[i] == stride);
    stride *= shape[i];
  }
  return in_order;
}

std::string ArraySpec::ToString() const { return absl::StrCat(DtypeName(dtype), shape.ToString()); }

ByteRange BytesTouched(const ArraySpec& spec) {
  ByteRange range{spec.offset, spec.offset + spec.item_size()};
  for (int i = 0; i < spec.ndim(); ++i) {
    if (spec.shape[i] == 0) return {};
    const int64_t span = (spec.shape[i] - 1) * spec.strides[i];
    (span < 0 ? range.begin : range.end) += span;
  }
  return range;
}

}  // namespace chx
