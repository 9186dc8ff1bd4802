// A CUDA runtime in host memory, for tests of server/cuda/runtime without a GPU: it has the
// functions that are called there, does everything at once, and fails when a test asks it to.
#ifndef CHX_SERVER_CUDA_TESTING_FAKE_CUDA_H_
#define CHX_SERVER_CUDA_TESTING_FAKE_CUDA_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace chx::server::cuda {

// The state of the one fake runtime. Used by one thread.
struct FakeCuda {
  int devices = 2;
  int compute_capability = 9;  // the major number
  int64_t memory = int64_t{1} << 30;

  cudaError_t lasting = cudaSuccess;  // what each call returns from now on
  cudaError_t next = cudaSuccess;     // what the next copy returns

  uint64_t release_threshold = 0;  // of the pool that was made last
  int64_t used = 0;                // by pools
  int64_t kept = 0;                // freed, and not given back
  int64_t outside = 0;             // what libraries have allocated
  int priority_of_fills = 0;       // of the stream of the last fill
  int destroyed = 0;               // streams and events
  int events = 0;                  // that there are
  int marks = 0;                   // events that were recorded
  int64_t mark_micros = 0;         // what the device works before each of them
  int captures = 0;                // of streams that are captured now
  int graphs = 0;                  // that can be launched
  int graph_launches = 0;
  cudaError_t next_capture = cudaSuccess;  // what the end of the next one returns
  int not_ready = 0;                       // so many queries of events find them ahead
  int priority_of_streams = 0;             // of the stream that was made last
  int orders = 0;                          // cudaStreamWaitEvent
  int peer_copies = 0;
};

FakeCuda& TheFakeCuda();
// As at first.
void ResetFakeCuda();

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_TESTING_FAKE_CUDA_H_
