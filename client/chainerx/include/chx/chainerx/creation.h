// Routines that make arrays, and values on their way from and to the host.
#ifndef CHX_CHAINERX_CREATION_H_
#define CHX_CHAINERX_CREATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "chx/chainerx/array.h"
#include "chx/chainerx/context.h"
#include "chx/chainerx/dtype.h"
#include "chx/chainerx/optional.h"
#include "chx/chainerx/scalar.h"
#include "chx/chainerx/shape.h"

namespace chainerx {

// Copies from host memory. The bytes are sent at the call; `data` may be freed after it.
Array FromContiguousHostData(const Shape& shape, Dtype dtype, const std::shared_ptr<void>& data,
                             Device& device = GetDefaultDevice());
// Element 0 is `offset` bytes after data. The array is in C order, whatever the strides.
Array FromHostData(const Shape& shape, Dtype dtype, const std::shared_ptr<void>& data,
                   const Strides& strides, int64_t offset, Device& device = GetDefaultDevice());
// ChainerX aliases memory of the device; this copies memory of the host.
Array FromData(const Shape& shape, Dtype dtype, const std::shared_ptr<void>& data,
               const Optional<Strides>& strides = std::nullopt, int64_t offset = 0,
               Device& device = GetDefaultDevice());

// The value of an array of one element; a DimensionError for others. Waits.
Scalar AsScalar(const Array& a);
// All elements in C order. A DtypeError if T is not the array's. Waits. Not in ChainerX.
template <typename T>
std::vector<T> ToVector(const Array& a);

Array Empty(const Shape& shape, Dtype dtype, Device& device = GetDefaultDevice());
Array Full(const Shape& shape, Scalar fill_value, Dtype dtype, Device& device = GetDefaultDevice());
Array Full(const Shape& shape, Scalar fill_value, Device& device = GetDefaultDevice());
Array Zeros(const Shape& shape, Dtype dtype, Device& device = GetDefaultDevice());
Array Ones(const Shape& shape, Dtype dtype, Device& device = GetDefaultDevice());

Array Arange(Scalar start, Scalar stop, Scalar step, Dtype dtype,
             Device& device = GetDefaultDevice());
Array Arange(Scalar start, Scalar stop, Scalar step, Device& device = GetDefaultDevice());
Array Arange(Scalar start, Scalar stop, Dtype dtype, Device& device = GetDefaultDevice());
Array Arange(Scalar start, Scalar stop, Device& device = GetDefaultDevice());
Array Arange(Scalar stop, Dtype dtype, Device& device = GetDefaultDevice());
Array Arange(Scalar stop, Device& device = GetDefaultDevice());

// Of a's shape and dtype, on `device`.
Array EmptyLike(const Array& a, Device& device = GetDefaultDevice());
Array FullLike(const Array& a, Scalar fill_value, Device& device = GetDefaultDevice());
Array ZerosLike(const Array& a, Device& device = GetDefaultDevice());
Array OnesLike(const Array& a, Device& device = GetDefaultDevice());

Array Identity(int64_t n, Dtype dtype, Device& device = GetDefaultDevice());
// n x m, m being n unless given, with ones on the k-th diagonal. float64 unless given.
Array Eye(int64_t n, Optional<int64_t> m, Optional<int64_t> k, Optional<Dtype> dtype,
          Device& device = GetDefaultDevice());
// Ones on the k-th diagonal and below. float32 unless given.
Array Tri(int64_t n, Optional<int64_t> m, Optional<int64_t> k, Optional<Dtype> dtype,
          Device& device = GetDefaultDevice());
// 50 numbers of float32 unless given.
Array Linspace(Scalar start, Scalar stop, Optional<int64_t> num = std::nullopt,
               bool endpoint = true, Optional<Dtype> dtype = std::nullopt,
               Device& device = GetDefaultDevice());

enum class MeshgridIndexingMode { kCartesian, kMatrix };
std::vector<Array> Meshgrid(const std::vector<Array>& arrays, MeshgridIndexingMode mode);

// In C order; the array itself if it is that already.
Array AsContiguous(const Array& a, Dtype dtype);
inline Array AsContiguous(const Array& a) { return AsContiguous(a, a.dtype()); }
// The same with at least one dimension.
Array AsContiguousArray(const Array& a, Optional<Dtype> dtype = std::nullopt);

namespace internal {
using chainerx::FromHostData;
void CopyToHost(const Array& a, Dtype dtype, void* out);
}  // namespace internal

template <typename T>
std::vector<T> ToVector(const Array& a) {
  // Of bool there is no vector that is an array.
  using Element = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  std::vector<Element> values(static_cast<size_t>(a.GetTotalSize()));
  internal::CopyToHost(a, TypeToDtype<T>, values.data());
  return std::vector<T>(values.begin(), values.end());
}

}  // namespace chainerx

#endif  // CHX_CHAINERX_CREATION_H_
