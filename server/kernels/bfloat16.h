// bfloat16 storage: the upper half of a float32, with the memory layout of CUDA's __nv_bfloat16.
#ifndef CHX_SERVER_KERNELS_BFLOAT16_H_
#define CHX_SERVER_KERNELS_BFLOAT16_H_

#include <cstdint>

#include "server/kernels/float_bits.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// Exact for every value.
CHX_HD float Bfloat16BitsToFloat(uint16_t bits) {
  return BitCast<float>(static_cast<uint32_t>(bits) << 16);
}

// Rounds to nearest, ties to even. NaNs stay NaNs. No branches, so that loops over it vectorise.
CHX_HD uint16_t FloatToBfloat16Bits(float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>((nan ? bits | 0x00400000 : rounded) >> 16);
}

struct Bfloat16 {
  uint16_t bits;

  Bfloat16() = default;
  CHX_HD explicit Bfloat16(float value) : bits(FloatToBfloat16Bits(value)) {}
  // Rounded once.
  CHX_HD explicit Bfloat16(double value) : bits(FloatToBfloat16Bits(RoundToOdd(value))) {}
  CHX_HD explicit operator float() const { return Bfloat16BitsToFloat(bits); }
  CHX_HD explicit operator double() const { return static_cast<double>(Bfloat16BitsToFloat(bits)); }
};
static_assert(sizeof(Bfloat16) == 2, "layout of __nv_bfloat16");

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_BFLOAT16_H_
