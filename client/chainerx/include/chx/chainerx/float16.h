// Half precision in host memory.
#ifndef CHX_CHAINERX_FLOAT16_H_
#define CHX_CHAINERX_FLOAT16_H_

#include <cstdint>

namespace chainerx {

// IEEE binary16. Arithmetic goes through float.
class Float16 {
 public:
  Float16() = default;
  explicit Float16(float value);
  template <typename T>
  explicit Float16(T value) : Float16(static_cast<float>(value)) {}
  static Float16 FromData(uint16_t data) {
    Float16 value;
    value.data_ = data;
    return value;
  }

  uint16_t data() const { return data_; }
  explicit operator float() const;
  template <typename T>
  explicit operator T() const {
    return static_cast<T>(static_cast<float>(*this));
  }
  bool IsNan() const { return (data_ & 0x7fff) > 0x7c00; }
  bool IsInf() const { return (data_ & 0x7fff) == 0x7c00; }
  Float16 operator-() const { return FromData(data_ ^ 0x8000); }

 private:
  uint16_t data_ = 0;
};

inline Float16 operator+(Float16 a, Float16 b) {
  return Float16(static_cast<float>(a) + static_cast<float>(b));
}
inline Float16 operator-(Float16 a, Float16 b) {
  return Float16(static_cast<float>(a) - static_cast<float>(b));
}
inline Float16 operator*(Float16 a, Float16 b) {
  return Float16(static_cast<float>(a) * static_cast<float>(b));
}
inline Float16 operator/(Float16 a, Float16 b) {
  return Float16(static_cast<float>(a) / static_cast<float>(b));
}
inline bool operator==(Float16 a, Float16 b) {
  return static_cast<float>(a) == static_cast<float>(b);
}
inline bool operator!=(Float16 a, Float16 b) { return !(a == b); }
inline bool operator<(Float16 a, Float16 b) {
  return static_cast<float>(a) < static_cast<float>(b);
}
inline bool operator>(Float16 a, Float16 b) { return b < a; }
inline bool operator<=(Float16 a, Float16 b) {
  return static_cast<float>(a) <= static_cast<float>(b);
}
inline bool operator>=(Float16 a, Float16 b) { return b <= a; }

}  // namespace chainerx

#endif  // CHX_CHAINERX_FLOAT16_H_
