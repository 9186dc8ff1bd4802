// What this backend's kernels need of a stream beyond the engine's interface. No CUDA headers: the
// kernels also compile for the host, where tests run them (see launch.h).
#ifndef CHX_SERVER_CUDA_KERNEL_STREAM_H_
#define CHX_SERVER_CUDA_KERNEL_STREAM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "ops/dtype.h"
#include "server/engine/backend.h"

namespace chx::server::cuda {

class Dnn;
class Solver;

// One call of BLAS in its own, column-major terms: c = op(a) op(b) + beta c for `count` matrices
// that lie `*_stride` elements apart. a, b and c are of one float dtype; float16 is summed up in
// float32.
struct GemmCall {
  Dtype dtype = Dtype::kFloat32;
  bool transpose_a = false;
  bool transpose_b = false;
  int64_t m = 0;  // rows of op(a) and c
  int64_t n = 0;  // columns of op(b) and c
  int64_t k = 0;
  const void* a = nullptr;
  int64_t lda = 1;
  int64_t a_stride = 0;
  const void* b = nullptr;
  int64_t ldb = 1;
  int64_t b_stride = 0;
  bool accumulate = false;  // beta = 1, else 0
  void* c = nullptr;
  int64_t ldc = 1;
  int64_t c_stride = 0;
  int64_t count = 1;
};

// Used by one thread at a time, as every Stream.
class KernelStream : public Stream {
 public:
  // The cudaStream_t; makes its device the calling thread's current one.
  virtual void* handle() = 0;
  // What became of the launch just made.
  virtual absl::Status Launched() = 0;
  // Kernels of more elements than this are launched in several parts, some 50 ms each, so that
  // commands can be stopped between them: what a GPU has begun it ends.
  virtual int64_t max_launch_elements() const { return int64_t{1} << 36; }
  // Between such parts: waits for all work, or returns an error if the command is to stop.
  virtual absl::Status Pause() = 0;
  virtual absl::Status Gemm(const GemmCall& call) = 0;
  // Null where the library is not installed, or the session's settings turn it off: kernels then
  // do without.
  virtual Dnn* dnn() = 0;
  virtual Solver* solver() = 0;
};

// The streams of this backend's devices are all KernelStreams.
inline KernelStream& StreamOf(const KernelArgs& args) {
  return static_cast<KernelStream&>(args.stream);
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNEL_STREAM_H_
