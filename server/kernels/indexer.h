// Walking over several strided arrays of one shape together.
#ifndef CHX_SERVER_KERNELS_INDEXER_H_
#define CHX_SERVER_KERNELS_INDEXER_H_

#include <cstdint>

#include "ops/array_spec.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// A loop nest over N operands: plain data, so it can be passed to a device. Dimension ndim - 1 is
// the innermost; strides are in bytes. No dimensions means one element.
template <int N>
struct LoopNest {
  int ndim = 0;
  int64_t size = 1;  // elements
  int64_t shape[kMaxNdim];
  int64_t strides[N][kMaxNdim];

  // Appends a dimension inside the others, merged with the last one where all operands allow it.
  void Append(int64_t dim, const int64_t (&dim_strides)[N]) {
    size *= dim;
    if (dim == 1) return;
    if (ndim > 0) {
      bool merges = true;
      for (int k = 0; k < N; ++k) merges &= strides[k][ndim - 1] == dim_strides[k] * dim;
      if (merges) {
        shape[ndim - 1] *= dim;
        for (int k = 0; k < N; ++k) strides[k][ndim - 1] = dim_strides[k];
        return;
      }
    }
    shape[ndim] = dim;
    for (int k = 0; k < N; ++k) strides[k][ndim] = dim_strides[k];
    ++ndim;
  }

  // The byte offsets of the element at C-order position `linear`.
  CHX_HD void Offsets(int64_t linear, int64_t (&offsets)[N]) const {
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    for (int d = ndim - 1; d > 0; --d) {
      const int64_t rest = linear / shape[d];
      const int64_t index = linear - rest * shape[d];
      for (int k = 0; k < N; ++k) offsets[k] += index * strides[k][d];
      linear = rest;
    }
    if (ndim > 0) {
      for (int k = 0; k < N; ++k) offsets[k] += linear * strides[k][0];
    }
  }
  // As above for one operand.
  CHX_HD int64_t Offset(int operand, int64_t linear) const {
    int64_t offset = 0;
    for (int d = ndim - 1; d > 0; --d) {
      const int64_t rest = linear / shape[d];
      offset += (linear - rest * shape[d]) * strides[operand][d];
      linear = rest;
    }
    return ndim > 0 ? offset + linear * strides[operand][0] : 0;
  }

  // Whether operand k is dense in C order over the nest.
  bool Contiguous(int k, int64_t item_size) const {
    return ndim == 0 || (ndim == 1 && strides[k][0] == item_size);
  }
};

// The nest over `shape` with each operand's strides, with dimensions merged as far as they go.
template <int N>
LoopNest<N> MakeLoopNest(const Shape& shape, const Strides* const (&strides)[N]) {
  LoopNest<N> nest;
  for (int d = 0; d < shape.size(); ++d) {
    int64_t dim_strides[N];
    for (int k = 0; k < N; ++k) dim_strides[k] = (*strides[k])[d];
    nest.Append(shape[d], dim_strides);
  }
  return nest;
}

// Whether the strides are those of a dense C-order array; dimensions of 1 don't count.
inline bool IsContiguous(const Shape& shape, const Strides& strides, int64_t item_size) {
  int64_t expected = item_size;
  for (int d = shape.size() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_INDEXER_H_
