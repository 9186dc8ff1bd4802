// Checks of values that lie in device memory, such as indices.
//
// A session's error belongs to the operator that failed, so the answer is needed before the kernel
// returns: FirstBad waits for the stream. Only operators that must look at values pay for it.
#ifndef CHX_SERVER_CUDA_BAD_POSITION_H_
#define CHX_SERVER_CUDA_BAD_POSITION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/cuda/launch.h"
#include "server/engine/kernel.h"

namespace chx::server::cuda {

// The device's side: remembers the first of the bad positions among `size`. Plain data.
struct BadPosition {
  uint64_t* word = nullptr;  // 0: none so far
  int64_t size = 0;

  CHX_HD void Report(int64_t position) const {
    AtomicMax(word, static_cast<uint64_t>(size - position));
  }
};

inline absl::StatusOr<BadPosition> NewBadPosition(const KernelArgs& args, int64_t size) {
  BadPosition bad;
  CHX_ASSIGN_OR_RETURN(void* const word, args.scratch.Allocate(sizeof(*bad.word)));
  CHX_RETURN_IF_ERROR(args.stream.Zero(word, sizeof(*bad.word)));
  bad.word = static_cast<uint64_t*>(word);
  bad.size = size;
  return bad;
}

// Waits for the stream; -1 if nothing was reported.
inline absl::StatusOr<int64_t> FirstBad(const KernelArgs& args, const BadPosition& bad) {
  uint64_t word = 0;
  CHX_RETURN_IF_ERROR(args.stream.CopyOut(&word, bad.word, sizeof(word)));
  return word == 0 ? -1 : bad.size - static_cast<int64_t>(word);
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_BAD_POSITION_H_
