// What this backend's kernels need of a stream beyond the engine's interface. There are no CUDA
// headers here, because tests compile and run the kernels on the host (launch.h).
#ifndef CHX_SERVER_CUDA_LOOPS_KERNEL_STREAM_H_
#define CHX_SERVER_CUDA_LOOPS_KERNEL_STREAM_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/backend.h"

namespace chx::server::cuda {

class Dnn;
class Solver;
struct Finding;
struct GemmCall;

// Used by one thread at a time, as every Stream.
class KernelStream : public Stream {
 public:
  // The cudaStream_t; makes its device the calling thread's current one.
  virtual void* handle() = 0;
  // The outcome of the launch just made.
  virtual absl::Status Launched() = 0;
  // The same for a call that returns its cudaError_t and leaves nothing for Launched.
  virtual absl::Status Outcome(absl::string_view what, int error) = 0;
  // Kernels of more elements than this are launched in several parts of some 50 ms each. A command
  // can be stopped between two of them; a GPU always finishes what it has begun.
  virtual int64_t max_launch_elements() const { return int64_t{1} << 36; }
  // Whether the device has done all that the stream was given.
  virtual absl::StatusOr<bool> IsDone() = 0;
  // Between such parts: waits for all work, or returns an error if the command is to stop.
  virtual absl::Status Pause() = 0;
  // Where kernels write what they find wrong (late_check.h).
  virtual Finding* finding() = 0;
  // Gives what nobody uses of the device's memory back to the driver. False: that was nothing.
  virtual bool MakeRoom() = 0;
  virtual absl::Status Gemm(const KernelArgs& args, const GemmCall& call) = 0;
  // One matrix, with call.bias. False: nothing does that at once here, and nothing has been done.
  virtual absl::StatusOr<bool> GemmWithBias(const KernelArgs& args, const GemmCall& call) = 0;
  // Where kernels run on the host (launch.h): does what one does, now or, in a sequence, each time.
  virtual void Emulate(const std::function<void()>& kernel) { kernel(); }
  // Null if the library is not installed, or the session's settings turn it off. Kernels then
  // compute without it.
  virtual Dnn* dnn() = 0;
  virtual Solver* solver() = 0;
};

// The streams of this backend's devices are all KernelStreams.
inline KernelStream& StreamOf(const KernelArgs& args) {
  return static_cast<KernelStream&>(args.stream);
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_KERNEL_STREAM_H_
