// Shapes, strides and axes.
#ifndef CHX_CHAINERX_SHAPE_H_
#define CHX_CHAINERX_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "chx/chainerx/dtype.h"
#include "chx/chainerx/error.h"
#include "chx/chainerx/optional.h"
#include "chx/chainerx/stack_vector.h"

namespace chainerx {

constexpr int8_t kMaxNdim = 10;

// Numbers for each spatial dimension.
using Dims = StackVector<int64_t, static_cast<size_t>(kMaxNdim)>;

namespace internal {
// "(2, 3)", "(4,)" or "()".
std::string TupleString(const int64_t* begin, const int64_t* end);
[[noreturn]] void ThrowIndexError(const char* what, int64_t index, size_t size);
}  // namespace internal

class Axes : public StackVector<int8_t, static_cast<size_t>(kMaxNdim)> {
 public:
  using StackVector::StackVector;
  Axes() = default;
  template <typename Range, typename = decltype(std::declval<const Range&>().data())>
  explicit Axes(const Range& axes) : StackVector(axes.begin(), axes.end()) {}

  int8_t ndim() const noexcept { return static_cast<int8_t>(size()); }
  std::string ToString() const;
};

// An argument: axes, one axis, or none given.
template <typename Container>
class OptionalContainerArg {
 public:
  using T = typename Container::value_type;
  template <typename None,
            std::enable_if_t<
                std::is_convertible_v<None, Optional<Container>> && std::is_empty_v<None>, int> = 0>
  OptionalContainerArg(None) {}                                          // NOLINT
  OptionalContainerArg(const T& value) : value_(Container{value}) {}     // NOLINT
  OptionalContainerArg(std::initializer_list<T> values)                  // NOLINT
      : value_(Container(values.begin(), values.end())) {}               // NOLINT
  OptionalContainerArg(Container values) : value_(std::move(values)) {}  // NOLINT

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Container& value() const { return value_.value(); }
  const Container& operator*() const { return *value_; }
  const Container* operator->() const { return &*value_; }

 private:
  Optional<Container> value_;
};
using OptionalAxes = OptionalContainerArg<Axes>;

class Shape : public Dims {
 public:
  using Dims::StackVector;
  Shape() = default;
  // A vector or a span.
  template <typename Range, typename = decltype(std::declval<const Range&>().data())>
  explicit Shape(const Range& dims) : StackVector(dims.begin(), dims.end()) {}

  int8_t ndim() const noexcept { return static_cast<int8_t>(size()); }
  // The number of elements.
  int64_t GetTotalSize() const;
  std::string ToString() const { return internal::TupleString(begin(), end()); }
  // An IndexError if it is out of range.
  int64_t& operator[](int64_t i) { return data()[Checked(i)]; }
  const int64_t& operator[](int64_t i) const { return data()[Checked(i)]; }

 private:
  int64_t Checked(int64_t i) const {
    if (i < 0 || i >= ndim()) internal::ThrowIndexError("shape", i, size());
    return i;
  }
};

// In bytes.
class Strides : public Dims {
 public:
  using Dims::StackVector;
  Strides() = default;
  // Those of an array without gaps, in C order.
  Strides(const Shape& shape, Dtype dtype) : Strides(shape, GetItemSize(dtype)) {}
  Strides(const Shape& shape, int64_t item_size);

  int8_t ndim() const noexcept { return static_cast<int8_t>(size()); }
  std::string ToString() const { return internal::TupleString(begin(), end()); }
  // A DimensionError if it is out of range.
  int64_t& operator[](int64_t i) { return data()[Checked(i)]; }
  const int64_t& operator[](int64_t i) const { return data()[Checked(i)]; }

 private:
  int64_t Checked(int64_t i) const {
    if (i < 0 || i >= ndim()) {
      throw DimensionError("[strides] expects an index below ", size(), ", got ", i);
    }
    return i;
  }
};

std::ostream& operator<<(std::ostream& os, const Axes& axes);
std::ostream& operator<<(std::ostream& os, const Shape& shape);
std::ostream& operator<<(std::ostream& os, const Strides& strides);

// DimensionErrors unless they are equal.
void CheckEqual(const Shape& a, const Shape& b);
void CheckEqual(const Strides& a, const Strides& b);

}  // namespace chainerx

#endif  // CHX_CHAINERX_SHAPE_H_
