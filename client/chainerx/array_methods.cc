// Methods that are routines, and arrays as text.
#include <string>
#include <vector>

#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

Array Self(const ArrayProperties& array) { return Array(internal::BodyOf(array)); }

constexpr int64_t kMostElements = 1000;  // of which all are printed
constexpr int64_t kEdge = 3;             // and otherwise at both ends of each axis

std::vector<std::string> Texts(const Array& array) {
  return VisitDtype(array.dtype(), [&array](auto type) {
    std::vector<std::string> texts;
    using Element = typename decltype(type)::type;
    for (Element value : ToVector<Element>(array)) texts.push_back(Scalar(value).ToString());
    return texts;
  });
}

// Nested brackets, as NumPy prints them.
class Printer {
 public:
  explicit Printer(const Array& array) : shape_(array.shape()) {
    Array shown = array;
    if (array.GetTotalSize() > kMostElements) {
      for (int8_t axis = 0; axis < array.ndim(); ++axis) shown = Edges(shown, axis);
    }
    shown_ = shown.shape();
    texts_ = Texts(shown);
  }

  std::string Print() {
    std::string text;
    Append(0, &text);
    return text;
  }

 private:
  static Array Edges(const Array& array, int8_t axis) {
    const int64_t size = array.shape()[axis];
    if (size <= 2 * kEdge) return array;
    std::vector<ArrayIndex> first(static_cast<size_t>(axis) + 1, Slice());
    std::vector<ArrayIndex> last = first;
    first.back() = Slice(kEdge);
    last.back() = Slice(size - kEdge, size);
    return Concatenate({array.At(first), array.At(last)}, axis);
  }

  void Append(int8_t axis, std::string* text) {
    if (axis == shape_.ndim()) {
      *text += texts_[next_++];
      return;
    }
    const std::string separator =
        axis + 1 == shape_.ndim() ? ", " : ",\n" + std::string(static_cast<size_t>(axis) + 7, ' ');
    *text += "[";
    for (int64_t i = 0; i < shown_[axis]; ++i) {
      if (i != 0) *text += separator;
      if (i == kEdge && shown_[axis] != shape_[axis]) *text += "..." + separator;
      Append(static_cast<int8_t>(axis + 1), text);
    }
    *text += "]";
  }

  const Shape shape_;
  Shape shown_;
  std::vector<std::string> texts_;
  size_t next_ = 0;
};

}  // namespace

Array ArrayMethods::Transpose(const OptionalAxes& axes) const {
  return chainerx::Transpose(Self(*this), axes);
}
Array ArrayMethods::Reshape(const Shape& newshape) const {
  return chainerx::Reshape(Self(*this), newshape);
}
Array ArrayMethods::Squeeze(const OptionalAxes& axis) const {
  return chainerx::Squeeze(Self(*this), axis);
}
Array ArrayMethods::Swapaxes(int8_t axis1, int8_t axis2) const {
  return chainerx::Swapaxes(Self(*this), axis1, axis2);
}
Array ArrayMethods::Ravel() const { return chainerx::Ravel(Self(*this)); }
Array ArrayMethods::BroadcastTo(const Shape& shape) const {
  return chainerx::BroadcastTo(Self(*this), shape);
}
Array ArrayMethods::ArgMax(const OptionalAxes& axis) const {
  return chainerx::ArgMax(Self(*this), axis);
}
Array ArrayMethods::ArgMin(const OptionalAxes& axis) const {
  return chainerx::ArgMin(Self(*this), axis);
}
Array ArrayMethods::Sum(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::Sum(Self(*this), axis, keepdims);
}
Array ArrayMethods::Max(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::AMax(Self(*this), axis, keepdims);
}
Array ArrayMethods::Min(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::AMin(Self(*this), axis, keepdims);
}
Array ArrayMethods::Mean(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::Mean(Self(*this), axis, keepdims);
}
Array ArrayMethods::Var(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::Var(Self(*this), axis, keepdims);
}
Array ArrayMethods::All(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::All(Self(*this), axis, keepdims);
}
Array ArrayMethods::Any(const OptionalAxes& axis, bool keepdims) const {
  return chainerx::Any(Self(*this), axis, keepdims);
}
Array ArrayMethods::Dot(const Array& b) const { return chainerx::Dot(Self(*this), b); }
Array ArrayMethods::Take(const Array& indices, int8_t axis, IndexBoundsMode mode) const {
  return chainerx::Take(Self(*this), indices, axis, mode);
}
Array ArrayMethods::Copy() const { return chainerx::Copy(Self(*this)); }

std::string ArrayProperties::ToString() const {
  const NoBackpropModeScope scope(context());
  return internal::Message("array(", Printer(Self(*this)).Print(), ", shape=", shape(),
                           ", dtype=", dtype(), ", device='", device().name(), "')");
}

std::ostream& operator<<(std::ostream& os, const Array& array) { return os << array.ToString(); }

}  // namespace chainerx
