// A Python-like number: bool, 64-bit integer or 64-bit float.
#ifndef CHX_OPS_SCALAR_H_
#define CHX_OPS_SCALAR_H_

#include <cstdint>
#include <string>

namespace chx {

// In promotion order; values are on the wire.
enum class ScalarKind : uint8_t { kBool = 0, kInt = 1, kFloat = 2 };

// Converts implicitly from what it holds.
class Scalar {
 public:
  Scalar() : Scalar(false) {}
  Scalar(bool value) : kind_(ScalarKind::kBool), int_(value ? 1 : 0) {}  // NOLINT
  Scalar(int value) : kind_(ScalarKind::kInt), int_(value) {}            // NOLINT
  Scalar(int64_t value) : kind_(ScalarKind::kInt), int_(value) {}        // NOLINT
  Scalar(double value) : kind_(ScalarKind::kFloat), float_(value) {}     // NOLINT

  ScalarKind kind() const { return kind_; }
  bool is_float() const { return kind_ == ScalarKind::kFloat; }
  double AsDouble() const { return is_float() ? float_ : static_cast<double>(int_); }
  // A float out of int64's range (or NaN) becomes INT64_MIN, as x86 conversions do.
  int64_t AsInt() const {
    if (!is_float()) return int_;
    return float_ >= -9223372036854775808.0 && float_ < 9223372036854775808.0
               ? static_cast<int64_t>(float_)
               : INT64_MIN;
  }
  bool AsBool() const { return is_float() ? float_ != 0 : int_ != 0; }
  std::string ToString() const;

 private:
  ScalarKind kind_;
  union {
    int64_t int_;
    double float_;
  };
};

}  // namespace chx

#endif  // CHX_OPS_SCALAR_H_
