// Checks of values that lie in device memory, for operators that must not run on wrong ones: the
// kernel needs the answer before it goes on, so FirstInvalid::Read waits for the stream. Others use
// late_check.h.
#ifndef CHX_SERVER_CUDA_LOOPS_FIRST_INVALID_H_
#define CHX_SERVER_CUDA_LOOPS_FIRST_INVALID_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/cuda/loops/launch.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// The first of an array's elements that are reported as invalid. Plain data, for host and device.
class FirstInvalid {
 public:
  FirstInvalid() = default;

  // For an array of `size` elements, in scratch memory of the kernel.
  static absl::StatusOr<FirstInvalid> New(const KernelArgs& args, int64_t size) {
    FirstInvalid first;
    CHX_ASSIGN_OR_RETURN(void* const word, args.scratch.Allocate(sizeof(*first.word_)));
    CHX_RETURN_IF_ERROR(args.stream.Zero(word, sizeof(*first.word_)));
    first.word_ = static_cast<uint64_t*>(word);
    first.size_ = size;
    return first;
  }

  // On the device, by any thread.
  CHX_HD void Report(int64_t position) const {
    AtomicMax(word_, static_cast<uint64_t>(size_ - position));
  }

  // Waits for the stream; -1 if no element was reported.
  absl::StatusOr<int64_t> Read(const KernelArgs& args) const {
    uint64_t word = 0;
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(&word, word_, sizeof(word)));
    return word == 0 ? -1 : size_ - static_cast<int64_t>(word);
  }

 private:
  uint64_t* word_ = nullptr;  // size - position, or 0 if no element was reported
  int64_t size_ = 0;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_FIRST_INVALID_H_
