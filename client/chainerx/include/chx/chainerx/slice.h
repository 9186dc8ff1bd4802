// Indices of Array::At.
#ifndef CHX_CHAINERX_SLICE_H_
#define CHX_CHAINERX_SLICE_H_

#include <cstdint>

#include "chx/chainerx/error.h"
#include "chx/chainerx/optional.h"

namespace chainerx {

// As Python's: Slice{} is all of an axis, Slice{2} its first two elements.
class Slice {
 public:
  Slice() = default;
  explicit Slice(int64_t stop) : Slice(0, stop) {}
  Slice(int64_t start, int64_t stop) : Slice(start, stop, 1) {}
  // A DimensionError if the step is zero.
  Slice(Optional<int64_t> start, Optional<int64_t> stop, Optional<int64_t> step)
      : start_(start), stop_(stop), step_(step.value_or(1)) {
    if (step_ == 0) throw DimensionError("[slice] expects a step other than 0, got 0");
  }

  const Optional<int64_t>& start() const { return start_; }
  const Optional<int64_t>& stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  Optional<int64_t> start_;
  Optional<int64_t> stop_;
  int64_t step_ = 1;
};

class NewAxis {};

enum class ArrayIndexTag { kSingleElement = 1, kSlice, kNewAxis };

class ArrayIndex {
 public:
  ArrayIndex(int64_t index) : tag_(ArrayIndexTag::kSingleElement), index_(index) {}  // NOLINT
  ArrayIndex(Slice slice) : tag_(ArrayIndexTag::kSlice), slice_(slice) {}            // NOLINT
  ArrayIndex(NewAxis) : tag_(ArrayIndexTag::kNewAxis) {}                             // NOLINT

  ArrayIndexTag tag() const { return tag_; }
  // ChainerxErrors unless it is one.
  int64_t index() const {
    if (tag_ != ArrayIndexTag::kSingleElement) throw ChainerxError("the index is not an integer");
    return index_;
  }
  Slice slice() const {
    if (tag_ != ArrayIndexTag::kSlice) throw ChainerxError("the index is not a slice");
    return slice_;
  }

 private:
  ArrayIndexTag tag_;
  int64_t index_ = 0;
  Slice slice_;
};

}  // namespace chainerx

#endif  // CHX_CHAINERX_SLICE_H_
