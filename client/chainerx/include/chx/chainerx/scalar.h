// Numbers as arguments of operators.
#ifndef CHX_CHAINERX_SCALAR_H_
#define CHX_CHAINERX_SCALAR_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <type_traits>

#include "chx/chainerx/dtype.h"
#include "chx/chainerx/float16.h"

namespace chainerx {

// A bool, a 64-bit integer or a 64-bit float.
class Scalar {
 public:
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value)  // NOLINT
      : Scalar(value, std::is_same_v<T, bool>       ? DtypeKind::kBool
                      : std::is_floating_point_v<T> ? DtypeKind::kFloat
                                                    : DtypeKind::kInt) {}
  Scalar(Float16 value) : Scalar(static_cast<double>(value)) {}  // NOLINT
  // The value as one of that kind; integers have no unsigned kind.
  template <typename T>
  Scalar(T value, DtypeKind kind) : kind_(kind == DtypeKind::kUInt ? DtypeKind::kInt : kind) {
    if (kind_ == DtypeKind::kFloat) {
      float_ = static_cast<double>(value);
    } else {
      int_ = kind_ == DtypeKind::kBool ? static_cast<int64_t>(static_cast<bool>(value))
                                       : static_cast<int64_t>(value);
    }
  }

  DtypeKind kind() const { return kind_; }
  std::string ToString() const;

  explicit operator Float16() const { return Float16(As<double>()); }
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  explicit operator T() const {
    return As<T>();
  }
  Scalar operator+() const { return *this; }
  // A DtypeError for bools.
  Scalar operator-() const;

 private:
  template <typename T>
  T As() const {
    return kind_ == DtypeKind::kFloat ? static_cast<T>(float_) : static_cast<T>(int_);
  }

  DtypeKind kind_;
  union {
    int64_t int_;  // of bools, too
    double float_;
  };
};

bool operator==(Scalar a, Scalar b);
inline bool operator!=(Scalar a, Scalar b) { return !(a == b); }
// A float if one of them is, otherwise an integer.
Scalar operator+(Scalar a, Scalar b);
Scalar operator-(Scalar a, Scalar b);
Scalar operator*(Scalar a, Scalar b);
std::ostream& operator<<(std::ostream& os, Scalar value);

// The dtype of a number on its own: bool, int32 or float32.
Dtype GetDefaultDtype(DtypeKind kind);

}  // namespace chainerx

#endif  // CHX_CHAINERX_SCALAR_H_
