// float16 storage (IEEE binary16), with the memory layout of CUDA's __half.
#ifndef CHX_SERVER_KERNELS_HALF_H_
#define CHX_SERVER_KERNELS_HALF_H_

#include <cstdint>

#include "server/kernels/float_bits.h"
#include "server/kernels/host_device.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace chx::server::kernels {

// Exact for every value; a signalling NaN becomes a quiet one with the same payload. No branches,
// so that loops over it vectorise.
CHX_HD float HalfBitsToFloat(uint16_t bits) {
#ifdef __CUDA_ARCH__
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
#else
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fff) << 13;
  // Rebiases the exponent by 112; the multiplication also normalises subnormals.
  const float finite = BitCast<float>(magnitude) * 0x1p112f;
  const uint32_t quiet = magnitude > 0x0f800000 ? 0x00400000 : 0;
  const uint32_t special = magnitude | 0x7f800000 | quiet;
  const uint32_t value = magnitude >= 0x0f800000 ? special : BitCast<uint32_t>(finite);
  return BitCast<float>(value | (static_cast<uint32_t>(bits & 0x8000) << 16));
#endif
}

// Rounds to nearest, ties to even; beyond 65520 to infinity. NaNs stay NaNs.
CHX_HD uint16_t FloatToHalfBits(float value) {
#ifdef __CUDA_ARCH__
  return __half_raw(__float2half_rn(value)).x;
#else
  const uint32_t all = BitCast<uint32_t>(value);
  const uint32_t magnitude = all & 0x7fffffff;
  // Normal results: rebias, then round the 13 low bits to even; a carry may reach the exponent.
  const uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // Subnormal results: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
  const uint32_t subnormal = BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5f) - 0x3f000000;
  const uint32_t nan = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  uint32_t result = magnitude < 0x38800000 ? subnormal : normal;
  result = magnitude >= 0x47800000 ? 0x7c00 : result;
  result = magnitude > 0x7f800000 ? nan : result;
  return static_cast<uint16_t>(result | ((all >> 16) & 0x8000));
#endif
}

// Also from double without rounding twice.
CHX_HD uint16_t DoubleToHalfBits(double value) {
#ifdef __CUDA_ARCH__
  return __half_raw(__double2half(value)).x;
#else
  return FloatToHalfBits(RoundToOdd(value));
#endif
}

struct Half {
  uint16_t bits;

  Half() = default;
  CHX_HD explicit Half(float value) : bits(FloatToHalfBits(value)) {}
  CHX_HD explicit Half(double value) : bits(DoubleToHalfBits(value)) {}
  CHX_HD explicit operator float() const { return HalfBitsToFloat(bits); }
  CHX_HD explicit operator double() const { return static_cast<double>(HalfBitsToFloat(bits)); }
};
static_assert(sizeof(Half) == 2, "layout of __half");

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_HALF_H_
