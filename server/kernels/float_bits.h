// The bits of floats, and rounding that another rounding may follow.
#ifndef CHX_SERVER_KERNELS_FLOAT_BITS_H_
#define CHX_SERVER_KERNELS_FLOAT_BITS_H_

#include <cstdint>
#include <cstring>

#include "server/kernels/host_device.h"

namespace chx::server::kernels {

template <typename To, typename From>
CHX_HD To BitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

// The neighbour in float whose last bit is 1, unless a float has the value: rounded once more, to
// at least two bits fewer, it gives what rounding the value itself does.
CHX_HD float RoundToOdd(double value) {
  const float rounded = static_cast<float>(value);
  const uint32_t bits = BitCast<uint32_t>(rounded);
  const double error = value - static_cast<double>(rounded);
  const bool odd = (bits & 1) != 0;
  const bool away = (rounded > 0) == (error < 0);
  const bool exact = error == 0 || error != error || rounded == 0;
  return BitCast<float>(exact || odd ? bits : away ? bits - 1 : bits + 1);
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_FLOAT_BITS_H_
