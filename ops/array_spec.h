// Shape, strides and ArraySpec: everything about an array but its values.
#ifndef CHX_OPS_ARRAY_SPEC_H_
#define CHX_OPS_ARRAY_SPEC_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "ops/dtype.h"

namespace chx {

// As in ChainerX.
inline constexpr int kMaxNdim = 10;

// Up to kMaxNdim integers, without a heap allocation. Callers check sizes that come from outside
// before they construct one.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(absl::MakeConstSpan(values.begin(), values.size())) {}
  explicit Dims(absl::Span<const int64_t> values) : size_(static_cast<int8_t>(values.size())) {
    std::copy_n(values.data(), values.size(), values_);  // memcpy may not get a null pointer
  }
  Dims(int size, int64_t value) : size_(static_cast<int8_t>(size)) {
    for (int i = 0; i < size; ++i) values_[i] = value;
  }
  Dims(const Dims& other) : Dims(other.span()) {}
  // Self-assignment is a memmove onto itself.
  Dims& operator=(const Dims& other) {  // NOLINT(bugprone-unhandled-self-assignment)
    size_ = other.size_;
    std::copy_n(other.values_, other.size_, values_);
    return *this;
  }

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t operator[](int i) const { return values_[i]; }
  int64_t& operator[](int i) { return values_[i]; }
  int64_t back() const { return values_[size_ - 1]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + size_; }
  void push_back(int64_t value) { values_[size_++] = value; }
  absl::Span<const int64_t> span() const { return {values_, static_cast<size_t>(size_)}; }
  friend bool operator==(const Dims& a, const Dims& b) { return a.span() == b.span(); }
  friend bool operator!=(const Dims& a, const Dims& b) { return !(a == b); }
  // As a Python tuple: "(2, 3)", "(4,)", "()".
  std::string ToString() const;

 private:
  int8_t size_ = 0;
  int64_t values_[kMaxNdim];
};

// Elements in each dimension.
using Shape = Dims;
// Bytes between neighbours in each dimension.
using Strides = Dims;

// Elements; the product of a checked shape never overflows.
inline int64_t NumElements(const Shape& shape) {
  int64_t n = 1;
  for (int64_t dim : shape) n *= dim;
  return n;
}

// Negative dimensions and sizes from 2^62 bytes on are errors that name `op`.
absl::Status CheckShape(absl::string_view op, absl::Span<const int64_t> shape, Dtype dtype);

// C-order strides, as NumPy computes them.
Strides ContiguousStrides(const Shape& shape, int64_t item_size);

// NumPy broadcasting of `b` into `*a`; false if they don't fit.
bool BroadcastInto(Shape* a, const Shape& b);

// Index into the session's device list.
using DeviceId = uint16_t;

// One array's metadata. Client and server compute the same one, by the same rules.
struct ArraySpec {
  Dtype dtype = Dtype::kFloat32;
  DeviceId device = 0;
  Shape shape;
  Strides strides;     // bytes; 0 and negative allowed
  int64_t offset = 0;  // bytes from the start of the storage to element (0, ..., 0)

  ArraySpec() = default;
  // C-contiguous at offset 0.
  ArraySpec(Dtype dtype_in, const Shape& shape_in, DeviceId device_in = 0)
      : dtype(dtype_in),
        device(device_in),
        shape(shape_in),
        strides(ContiguousStrides(shape_in, ItemSize(dtype_in))) {}

  int ndim() const { return shape.size(); }
  int64_t size() const { return NumElements(shape); }
  int64_t item_size() const { return ItemSize(dtype); }
  int64_t nbytes() const { return size() * item_size(); }
  bool is_contiguous() const;
  // "float32(2, 3)".
  std::string ToString() const;
};

// Bytes of a storage, relative to its start.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;  // the first one behind
};
// The bytes that the array's elements lie in; an empty array gives {0, 0}.
ByteRange BytesTouched(const ArraySpec& spec);

}  // namespace chx

#endif  // CHX_OPS_ARRAY_SPEC_H_
