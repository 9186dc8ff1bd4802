// kernels::LoopNest for a GPU, where 64-bit division is slow.
#ifndef CHX_SERVER_CUDA_LOOPS_DEVICE_NEST_H_
#define CHX_SERVER_CUDA_LOOPS_DEVICE_NEST_H_

#include <cstdint>

#include "server/kernels/host_device.h"
#include "server/kernels/indexer.h"

namespace chx::server::cuda {

// Division by a fixed positive number. It is a multiplication if dividends are below 2^31 (Granlund
// & Montgomery, "Division by invariant integers using multiplication", 1994).
class Divider {
 public:
  Divider() = default;
  // For dividends below `limit`.
  Divider(int64_t divisor, int64_t limit) : divisor_(divisor) {
    // Nothing is divided by a dimension of 0.
    narrow_ = limit <= (int64_t{1} << 31) && divisor > 0 && divisor < (int64_t{1} << 31);
    if (!narrow_) return;
    while ((int64_t{1} << shift_) < divisor) ++shift_;
    multiplier_ =
        static_cast<uint32_t>((((uint64_t{1} << shift_) - static_cast<uint64_t>(divisor)) << 32) /
                                  static_cast<uint64_t>(divisor) +
                              1);
  }

  CHX_HD int64_t divisor() const { return divisor_; }
  CHX_HD int64_t Quotient(int64_t dividend) const {
    return narrow_ ? NarrowQuotient(static_cast<uint32_t>(dividend)) : dividend / divisor_;
  }
  // For dividends below 2^31; the limit is not greater either.
  CHX_HD uint32_t NarrowQuotient(uint32_t dividend) const {
#ifdef __CUDA_ARCH__
    const uint32_t high = __umulhi(dividend, multiplier_);
#else
    const uint32_t high = static_cast<uint32_t>((uint64_t{dividend} * multiplier_) >> 32);
#endif
    return (high + dividend) >> shift_;
  }

 private:
  int64_t divisor_ = 1;
  uint32_t multiplier_ = 1;
  int shift_ = 0;
  bool narrow_ = true;
};

template <int N>
class DeviceNest {
 public:
  DeviceNest() = default;
  explicit DeviceNest(const kernels::LoopNest<N>& nest) : ndim_(nest.ndim), size_(nest.size) {
    for (int d = 0; d < ndim_; ++d) {
      dims_[d] = Divider(nest.shape[d], nest.size);
      for (int k = 0; k < N; ++k) strides_[k][d] = nest.strides[k][d];
    }
  }

  CHX_HD int64_t size() const { return size_; }
  // Whether offsets are multiples of one stride.
  CHX_HD bool flat() const { return ndim_ <= 1; }
  CHX_HD int64_t flat_stride(int operand) const { return ndim_ == 0 ? 0 : strides_[operand][0]; }
  // The byte offsets of the element at C-order position `linear`.
  CHX_HD void Offsets(int64_t linear, int64_t (&offsets)[N]) const {
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    for (int d = ndim_ - 1; d > 0; --d) {
      const int64_t rest = dims_[d].Quotient(linear);
      const int64_t index = linear - rest * dims_[d].divisor();
      for (int k = 0; k < N; ++k) offsets[k] += index * strides_[k][d];
      linear = rest;
    }
    if (ndim_ > 0) {
      for (int k = 0; k < N; ++k) offsets[k] += linear * strides_[k][0];
    }
  }
  // Whether no index of several dimensions needs more than 31 bits.
  bool narrow() const { return flat() || size_ <= (int64_t{1} << 31); }
  // The same as Offsets for a narrow nest, in fewer instructions and registers.
  CHX_HD void NarrowOffsets(int64_t linear, int64_t (&offsets)[N]) const {
    if (flat()) {
      for (int k = 0; k < N; ++k) offsets[k] = linear * flat_stride(k);
      return;
    }
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    uint32_t rest = static_cast<uint32_t>(linear);
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int d = ndim_ - 1; d > 0; --d) {
      const uint32_t quotient = dims_[d].NarrowQuotient(rest);
      const uint32_t index = rest - quotient * static_cast<uint32_t>(dims_[d].divisor());
      for (int k = 0; k < N; ++k) offsets[k] += int64_t{index} * strides_[k][d];
      rest = quotient;
    }
    for (int k = 0; k < N; ++k) offsets[k] += int64_t{rest} * strides_[k][0];
  }
  CHX_HD int64_t Offset(int64_t linear) const {
    static_assert(N == 1, "one operand");
    int64_t offsets[1];
    Offsets(linear, offsets);
    return offsets[0];
  }

 private:
  int ndim_ = 0;
  int64_t size_ = 1;
  Divider dims_[kMaxNdim];
  int64_t strides_[N][kMaxNdim];
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_DEVICE_NEST_H_
