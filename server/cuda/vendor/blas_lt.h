// cuBLASLt, opened when a product with a bias first needs it (library.h): one kernel for both.
#ifndef CHX_SERVER_CUDA_VENDOR_BLAS_LT_H_
#define CHX_SERVER_CUDA_VENDOR_BLAS_LT_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/cuda/vendor/gemm.h"

namespace chx::server::cuda {

// The functions that we call. Immutable; safe from any thread.
struct BlasLtLibrary {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
};

// The outcome of the first call is kept.
absl::StatusOr<const BlasLtLibrary*> OpenBlasLt();

// A handle for one stream, with the algorithms that the library has chosen. Used by one thread at a
// time, as the stream.
class BlasLt {
 public:
  BlasLt();
  ~BlasLt();
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;

  // Of the current device. Before all other calls; again, it does nothing.
  absl::Status Open();
  // Whether the library has an algorithm for c = op(a) op(b) + bias of one matrix.
  absl::StatusOr<bool> Knows(const GemmCall& call, size_t workspace);
  // Computes that. False: it turns out that it has none, and nothing has been done. `workspace` is
  // not used after the call, in the stream's order; 256 bytes aligned.
  absl::StatusOr<bool> Multiply(cudaStream_t stream, absl::Span<char> workspace,
                                const GemmCall& call);

 private:
  // What an algorithm is chosen by: dtype, transpose_a, transpose_b, tf32; m, n, k; leading
  // dimensions; the alignment of all pointers; bytes of the workspace.
  using Key = std::tuple<int, bool, bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t,
                         int64_t, uint64_t, size_t>;
  struct Choice;

  absl::Status Check(const char* what, cublasStatus_t status) const;
  absl::Status Choose(const GemmCall& call, size_t workspace, Choice* choice) const;
  absl::StatusOr<Choice*> ChoiceFor(const GemmCall& call, size_t workspace);

  const BlasLtLibrary* library_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  absl::flat_hash_map<Key, std::unique_ptr<Choice>> choices_;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_VENDOR_BLAS_LT_H_
