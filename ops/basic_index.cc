#include "ops/basic_index.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "ops/error.h"

namespace chx {
namespace {

enum Kind : int64_t { kInt = 0, kNewAxis = 1, kEllipsis = 2, kSlice = 3 };
constexpr int64_t kHasStart = 4;
constexpr int64_t kHasStop = 8;
constexpr int64_t kHasStep = 16;

struct SliceItem {
  absl::optional<int64_t> start, stop, step;
};

// Whether kernels can calculate with it.
bool IsSafeStride(int64_t stride) {
  constexpr int64_t kMax = int64_t{1} << 62;
  return -kMax <= stride && stride <= kMax;
}

// As Python's slice.indices().
void ResolveSlice(const SliceItem& slice, int64_t dim, int64_t* start, int64_t* step,
                  int64_t* length) {
  *step = slice.step.value_or(1);
  const bool back = *step < 0;
  const int64_t low = back ? -1 : 0;
  const int64_t high = back ? dim - 1 : dim;
  const auto clip = [&](int64_t i) {
    if (i < 0) i = i < -dim ? low : i + dim;
    return std::min(std::max(i, low), high);
  };
  *start = slice.start.has_value() ? clip(*slice.start) : (back ? high : low);
  const int64_t stop = slice.stop.has_value() ? clip(*slice.stop) : (back ? low : high);
  // Unsigned: -INT64_MIN is fine there.
  const uint64_t distance = static_cast<uint64_t>(back ? *start - stop : stop - *start);
  const uint64_t stride =
      back ? uint64_t{0} - static_cast<uint64_t>(*step) : static_cast<uint64_t>(*step);
  const bool empty = back ? stop >= *start : *start >= stop;
  *length = empty ? 0 : static_cast<int64_t>((distance - 1) / stride + 1);
}

// Walks the items of an encoded index.
class Reader {
 public:
  explicit Reader(absl::Span<const int64_t> words) : words_(words) {}
  bool done() const { return words_.empty(); }
  // False if the encoding is broken.
  bool Next(int64_t* kind, int64_t* value, SliceItem* slice) {
    *kind = words_[0] & 3;
    const int64_t flags = words_[0];
    const size_t size = *kind == kInt ? 2 : *kind == kSlice ? 4 : 1;
    if (words_.size() < size || flags < 0 || flags > 31 || (*kind != kSlice && flags > 3)) {
      return false;
    }
    if (*kind == kInt) *value = words_[1];
    if (*kind == kSlice) {
      *slice = SliceItem();
      if (flags & kHasStart) slice->start = words_[1];
      if (flags & kHasStop) slice->stop = words_[2];
      if (flags & kHasStep) slice->step = words_[3];
    }
    words_.remove_prefix(size);
    return true;
  }

 private:
  absl::Span<const int64_t> words_;
};

absl::Status Broken(absl::string_view op) {
  return ValueError("[", op, "] expects an encoded index");
}

}  // namespace

IndexBuilder& IndexBuilder::Int(int64_t i) {
  encoded_.push_back(kInt);
  encoded_.push_back(i);
  return *this;
}

IndexBuilder& IndexBuilder::Slice(absl::optional<int64_t> start, absl::optional<int64_t> stop,
                                  absl::optional<int64_t> step) {
  encoded_.push_back(kSlice | (start ? kHasStart : 0) | (stop ? kHasStop : 0) |
                     (step ? kHasStep : 0));
  for (const auto& part : {start, stop, step}) encoded_.push_back(part.value_or(0));
  return *this;
}

IndexBuilder& IndexBuilder::NewAxis() {
  encoded_.push_back(kNewAxis);
  return *this;
}

IndexBuilder& IndexBuilder::Ellipsis() {
  encoded_.push_back(kEllipsis);
  return *this;
}

namespace {

// How many axes of the array the items take.
absl::StatusOr<int> CountAxes(absl::string_view op, absl::Span<const int64_t> encoded,
                              const ArraySpec& in) {
  int64_t kind = 0;
  int64_t value = 0;
  SliceItem slice;
  int consumed = 0;
  int added = 0;
  int ellipses = 0;
  for (Reader reader(encoded); !reader.done();) {
    if (!reader.Next(&kind, &value, &slice)) return Broken(op);
    if (kind == kInt || kind == kSlice) ++consumed;
    if (kind == kNewAxis) ++added;
    if (kind == kEllipsis) ++ellipses;
    if (consumed > kMaxNdim || added > kMaxNdim) break;
  }
  if (ellipses > 1) return IndexError("[", op, "] expects at most one ellipsis");
  if (consumed > in.ndim()) {
    return IndexError("[", op, "] expects at most ", in.ndim(), " indices for shape ",
                      in.shape.ToString(), ", got more");
  }
  return consumed;
}

absl::Status TakeIndex(absl::string_view op, int64_t index, int axis, const ArraySpec& in,
                       ArraySpec* out) {
  const int64_t dim = in.shape[axis];
  if (index < -dim || index >= dim) {
    return IndexError("[", op, "] index ", index, " is out of range for axis ", axis, " of shape ",
                      in.shape.ToString());
  }
  out->offset += (index < 0 ? index + dim : index) * in.strides[axis];
  return absl::OkStatus();
}

// One dimension of the result.
struct Dimension {
  int64_t length = 0;
  int64_t stride = 0;
};

absl::StatusOr<Dimension> TakeSlice(absl::string_view op, const SliceItem& slice, int axis,
                                    const ArraySpec& in, ArraySpec* out) {
  if (slice.step.has_value() && *slice.step == 0) {
    return ValueError("[", op, "] expects a slice step other than 0");
  }
  Dimension taken;
  int64_t start = 0;
  int64_t step = 1;
  ResolveSlice(slice, in.shape[axis], &start, &step, &taken.length);
  // Of a slice without elements too, as ChainerX's; where it starts at one.
  if (start >= 0 && start < in.shape[axis]) out->offset += start * in.strides[axis];
  // Strides as NumPy's; but a step that is never taken may be too large to multiply.
  taken.stride = in.strides[axis];
  if (taken.length > 0 &&
      (__builtin_mul_overflow(step, taken.stride, &taken.stride) || !IsSafeStride(taken.stride))) {
    taken.stride = in.strides[axis];
  }
  return taken;
}

}  // namespace

absl::Status ApplyBasicIndex(absl::string_view op, absl::Span<const int64_t> encoded,
                             const ArraySpec& in, ArraySpec* out) {
  CHX_ASSIGN_OR_RETURN(const int consumed, CountAxes(op, encoded, in));
  out->dtype = in.dtype;
  out->device = in.device;
  out->offset = in.offset;
  out->shape = Shape();
  out->strides = Strides();
  int axis = 0;
  const auto keep = [&](int64_t dim, int64_t stride) -> bool {
    if (out->ndim() == kMaxNdim) return false;
    out->shape.push_back(dim);
    out->strides.push_back(stride);
    return true;
  };
  const auto keep_all = [&](int until) {
    bool ok = true;
    for (; axis < until; ++axis) ok = keep(in.shape[axis], in.strides[axis]) && ok;
    return ok;
  };
  bool fits = true;
  int64_t kind = 0;
  int64_t value = 0;
  SliceItem slice;
  for (Reader reader(encoded); !reader.done() && fits;) {
    if (!reader.Next(&kind, &value, &slice)) return Broken(op);
    if (kind == kNewAxis) {
      fits = keep(1, 0);
    } else if (kind == kEllipsis) {
      fits = keep_all(axis + in.ndim() - consumed);
    } else if (kind == kInt) {
      CHX_RETURN_IF_ERROR(TakeIndex(op, value, axis, in, out));
      ++axis;
    } else {
      CHX_ASSIGN_OR_RETURN(const Dimension taken, TakeSlice(op, slice, axis, in, out));
      fits = keep(taken.length, taken.stride);
      ++axis;
    }
  }
  fits = fits && keep_all(in.ndim());
  if (!fits) {
    return DimensionError("[", op, "] expects at most ", kMaxNdim, " dimensions in the result");
  }
  return absl::OkStatus();
}

}  // namespace chx
