// The C++ types that stand for dtypes in memory, what kernels compute in, and conversions.
#ifndef CHX_SERVER_KERNELS_TYPES_H_
#define CHX_SERVER_KERNELS_TYPES_H_

#include <cstdint>
#include <type_traits>

#include "server/kernels/bfloat16.h"
#include "server/kernels/half.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// A stored bool. Clients upload arbitrary bytes, and loading a byte of 2 as C++ bool is undefined.
struct Bool {
  uint8_t byte;

  Bool() = default;
  CHX_HD explicit Bool(bool value) : byte(value ? 1 : 0) {}
  CHX_HD explicit operator bool() const { return byte != 0; }
};
static_assert(sizeof(Bool) == 1, "one byte in memory");

// Floats of 16 bits, which are computed in float.
template <typename T>
inline constexpr bool kIsNarrowFloat =
    std::is_same<T, Half>::value || std::is_same<T, Bfloat16>::value;

template <typename T>
struct ComputeTraits {
  using Type = std::conditional_t<kIsNarrowFloat<T>, float, T>;
};
template <>
struct ComputeTraits<Bool> {
  using Type = bool;
};
// What a formula sees of a stored T: float for narrow floats, bool for Bool, else T itself.
template <typename T>
using Compute = typename ComputeTraits<T>::Type;

template <typename T>
CHX_HD Compute<T> Load(const T& stored) {
  return static_cast<Compute<T>>(stored);
}
template <typename T>
CHX_HD T Store(Compute<T> value) {
  return static_cast<T>(value);
}

// Float to integer as x86 does it: out of range or NaN gives the smallest value; types narrower
// than 32 bits take the low bits of the 32-bit result.
template <typename To, typename From>
CHX_HD To FloatToInt(From value) {
  if constexpr (sizeof(To) < 4) {
    return static_cast<To>(FloatToInt<int32_t>(value));
  } else {
    constexpr From kLimit = sizeof(To) == 4 ? From(2147483648.0) : From(9223372036854775808.0);
    constexpr To kSmallest = sizeof(To) == 4 ? To(INT32_MIN) : To(INT64_MIN);
    const bool fits = value >= -kLimit && value < kLimit;
    return fits ? static_cast<To>(fits ? value : From(0)) : kSmallest;
  }
}

// Any stored type to any other, as `astype` does; never undefined.
template <typename To, typename From>
CHX_HD To Cast(From from) {
  if constexpr (std::is_same<To, From>::value) {
    return from;
  } else if constexpr (kIsNarrowFloat<From>) {
    return Cast<To>(static_cast<float>(from));
  } else if constexpr (std::is_same<From, Bool>::value) {
    return Cast<To>(static_cast<uint8_t>(from.byte != 0));
  } else if constexpr (std::is_same<To, Bool>::value) {
    return Bool(from != From(0));
  } else if constexpr (kIsNarrowFloat<To>) {
    if constexpr (std::is_same<From, float>::value) {
      return To(from);
    } else {
      return To(static_cast<double>(from));
    }
  } else if constexpr (std::is_floating_point<From>::value && std::is_integral<To>::value) {
    return FloatToInt<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_TYPES_H_
