// An NCCL in host memory, for tests without a GPU: a library with the functions that we call. Ranks
// are of one process, by whatever threads. What is queued is done when the last rank has queued its
// part, and until then it is in progress.
#ifndef CHX_SERVER_CUDA_TESTING_FAKE_NCCL_H_
#define CHX_SERVER_CUDA_TESTING_FAKE_NCCL_H_

#include <atomic>

namespace chx::server::cuda {

// What a test may set and see, at any time.
struct FakeNccl {
  std::atomic<int> next_init{0};        // ncclResult_t: what the next communicator fails with
  std::atomic<int> next_collective{0};  // and the next collective
  std::atomic<bool> stalls{false};      // nothing ends any more
  std::atomic<int> communicators{0};    // that there are
  std::atomic<int> destroyed{0};
  std::atomic<int> aborted{0};
  std::atomic<int> parts{0};  // of collectives: of so many ranks have been done
};

}  // namespace chx::server::cuda

// "ChxFakeNccl" of the library.
using ChxFakeNcclFunction = chx::server::cuda::FakeNccl*();

#endif  // CHX_SERVER_CUDA_TESTING_FAKE_NCCL_H_
