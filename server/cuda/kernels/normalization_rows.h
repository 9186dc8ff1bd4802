// What the kernels of ops/defs/normalization_rows.cc share.
#ifndef CHX_SERVER_CUDA_KERNELS_NORMALIZATION_ROWS_H_
#define CHX_SERVER_CUDA_KERNELS_NORMALIZATION_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/rows.h"
#include "server/engine/kernel.h"
#include "server/kernels/math.h"

namespace chx::server::cuda {

// How the rows lie in x: each is a group of channels of one sample in group_norm, where weight and
// bias have an element for each channel; otherwise they have one for each element of a row.
struct NormRows {
  int64_t rows = 1;
  int64_t n = 1;
  // Of group_norm, otherwise 0.
  int64_t groups = 0;
  int64_t channels = 0;  // of a group
  int64_t size = 0;      // of a channel
};

// Weight and bias of either kind, dense. Null: 1 and 0.
template <typename C>
struct Affine {
  const C* weight;
  const C* bias;
  bool of_channels;
  int64_t channels;  // of a group
  Divider groups;
  Divider size;

  Affine(const NormRows& rows, const char* weights, const char* biases)
      : weight(reinterpret_cast<const C*>(weights)),
        bias(reinterpret_cast<const C*>(biases)),
        of_channels(rows.groups > 0),
        channels(rows.channels),
        groups(of_channels ? rows.groups : 1, rows.rows),
        size(of_channels ? rows.size : 1, rows.n) {}

  // The row's first channel.
  CHX_HD int64_t First(int64_t row) const {
    return of_channels ? (row - groups.Quotient(row) * groups.divisor()) * channels : 0;
  }
  // Those of a row's elements at, ...; these are packs as of RowLoop.
  template <int kCount>
  CHX_HD void Weights(int64_t first, int at, C (&values)[kCount]) const {
    Load(weight, C(1), first, at, values);
  }
  template <int kCount>
  CHX_HD void Biases(int64_t first, int at, C (&values)[kCount]) const {
    Load(bias, C(0), first, at, values);
  }

 private:
  template <int kCount>
  CHX_HD void Load(const C* data, C otherwise, int64_t first, int at, C (&values)[kCount]) const {
    if (data == nullptr) {
      CHX_UNROLL
      for (int j = 0; j < kCount; ++j) values[j] = otherwise;
    } else if (of_channels) {
      CHX_UNROLL
      for (int j = 0; j < kCount; ++j) {
        values[j] = data[first + size.NarrowQuotient(static_cast<uint32_t>(at + j))];
      }
    } else {
      constexpr int kMost = 16 / static_cast<int>(sizeof(C));
      constexpr int kPart = kCount < kMost ? kCount : kMost;
      CHX_UNROLL
      for (int i = 0; i < kCount; i += kPart) {
        const auto pack = *reinterpret_cast<const Pack<C, kPart>*>(data + at + i);
        CHX_UNROLL
        for (int j = 0; j < kPart; ++j) values[i + j] = pack.elements[j];
      }
    }
  }
};

// What a row is normalized by: (x - mean) * inverse.
template <typename C>
struct RowMoments {
  C mean;
  C inverse;
};

// 1 / sqrt(variance + eps), of `squares` summed over n elements.
template <typename C>
CHX_HD C InverseDeviation(C squares, int64_t n, C eps) {
  return C(1) / kernels::Sqrt(squares / static_cast<C>(n) + eps);
}

// The gradients of weight and bias, which are outputs 1 and 2. x and gy are dense and of one dtype;
// `moments`: RowMoments<C> of each row.
absl::Status SumAffine(const KernelArgs& args, const NormRows& rows, const KernelTensor& x,
                       const KernelTensor& gy, const void* moments);

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_NORMALIZATION_ROWS_H_
