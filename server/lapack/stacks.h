// What the decompositions share: memory, and running one for each matrix of a stack.
#ifndef CHX_SERVER_LAPACK_STACKS_H_
#define CHX_SERVER_LAPACK_STACKS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/engine/kernel.h"
#include "server/engine/stop_requested.h"
#include "server/lapack/decompositions.h"

namespace chx::server::lapack {

// LAPACK's own codes are above; below are what it could not say.
inline constexpr int kNoMemory = INT32_MIN;
inline constexpr int kTooLarge = INT32_MIN + 1;
inline constexpr int kComplex = INT32_MIN + 2;

// Working memory: a few times that of a matrix, which the session's quota bounds.
template <typename T>
class Buffer {
 public:
  explicit Buffer(int64_t size)
      : data_(static_cast<T*>(std::malloc(std::max<int64_t>(1, size) * sizeof(T)))) {}
  T* get() const { return data_.get(); }
  bool ok() const { return data_ != nullptr; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  const std::unique_ptr<T, Free> data_;
};

template <typename T>
T* DataOf(const KernelTensor& tensor, int64_t i, int64_t size) {
  return reinterpret_cast<T*>(tensor.data) + i * size;
}

inline int64_t Rows(const KernelTensor& tensor) { return tensor.shape[tensor.ndim() - 2]; }
inline int64_t Columns(const KernelTensor& tensor) { return tensor.shape.back(); }

// to = from, for so many elements; ends early when it is to stop.
template <typename T>
void CopyElements(const T* from, int64_t n, T* to) {
  constexpr int64_t kPiece = 256 << 10;
  for (int64_t i = 0; i < n && !StopRequested(); i += kPiece) {
    std::copy_n(from + i, std::min(kPiece, n - i), to + i);
  }
}

// to (columns, rows) = the transpose of from (rows, columns); ends early when it is to stop.
template <typename T>
void Transpose(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kTile = 32;
  for (int64_t i0 = 0; i0 < rows; i0 += kTile) {
    for (int64_t j0 = 0; j0 < columns; j0 += kTile) {
      if (j0 % (256 * kTile) == 0 && StopRequested()) return;
      for (int64_t i = i0; i < std::min(rows, i0 + kTile); ++i) {
        for (int64_t j = j0; j < std::min(columns, j0 + kTile); ++j) {
          to[j * rows + i] = from[i * columns + j];
        }
      }
    }
  }
}

// Runs decompose(i), which returns LAPACK's code, for each matrix; the first failure becomes an
// error, in which `meaning` explains a positive code.
absl::Status ForAll(const KernelArgs& args, ForEach for_each, int64_t count, int64_t work,
                    const char* meaning, absl::FunctionRef<int(int64_t)> decompose);

// An optimal size as LAPACK reports it, in a float that may have been rounded down.
template <typename T>
int WorkSize(T reported) {
  const double size = static_cast<double>(reported) * (1 + 1e-6) + 1;
  return size < INT32_MAX ? static_cast<int>(size) : 0;
}

// cofactors.cc
absl::Status CofactorsOfFloat32(const KernelArgs& args, ForEach for_each);
absl::Status CofactorsOfFloat64(const KernelArgs& args, ForEach for_each);

}  // namespace chx::server::lapack

#endif  // CHX_SERVER_LAPACK_STACKS_H_
