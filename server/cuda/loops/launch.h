// Two of the forms that kernels here have; a third is in rows.h. A kernel's body is a plain functor
// for host and device.
// nvcc makes a kernel of it. Any other compiler makes a loop, so that tests run the bodies with the
// same index arithmetic and launch configuration.
#ifndef CHX_SERVER_CUDA_LOOPS_LAUNCH_H_
#define CHX_SERVER_CUDA_LOOPS_LAUNCH_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "ops/error.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/loops/thread_groups.h"
#include "server/kernels/host_device.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif
#ifdef __CUDA_ARCH__
#define CHX_UNROLL _Pragma("unroll")
#else
#define CHX_UNROLL
#endif

namespace chx::server::cuda {

// If there is work for more blocks, each block does several parts of it.
inline constexpr int64_t kMaxBlocks = int64_t{1} << 20;

#ifdef __CUDACC__

template <typename Body>
__global__ void __launch_bounds__(kThreads)
    ForEachKernel(const Body body, int64_t first, int64_t last) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = first + int64_t{blockIdx.x} * kThreads + threadIdx.x; i < last; i += step) {
    body(i);
  }
}

// What threads of one warp, or of the block, have written to shared memory is visible to each
// other.
__device__ __forceinline__ void Synchronize(bool within_warp) {
  if (within_warp) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

template <typename Body>
__global__ void __launch_bounds__(kThreads) GatherKernel(const Body body, int64_t blocks) {
  using Acc = typename Body::Acc;
  // Not an array of Acc, which may have constructors.
  __shared__ alignas(16) unsigned char memory[kThreads * sizeof(Acc)];
  Acc* const shared = reinterpret_cast<Acc*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const bool within_warp = body.groups.WithinWarp(body.groups.size() / 2);
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    shared[thread] = body.Gather(block, thread);
    for (int step = body.groups.size() / 2; step > 0; step /= 2) {
      Synchronize(body.groups.WithinWarp(step));
      if (body.groups.RankOf(thread) < step) {
        shared[thread] = Body::Combine(shared[thread], shared[body.groups.Ahead(thread, step)]);
      }
    }
    Synchronize(within_warp);
    body.Finish(block, thread, shared[body.groups.First(thread)]);
    Synchronize(within_warp);
  }
}

#endif  // __CUDACC__

// launch(first, last), which returns a Status, for parts of [0, size) that are not too long for one
// launch. `cost`: what one element takes, in loads or products.
template <typename Launch>
absl::Status InLaunches(KernelStream& stream, int64_t size, int64_t cost, Launch launch) {
  const int64_t part =
      std::max<int64_t>(1, stream.max_launch_elements() / std::max<int64_t>(1, cost));
  for (int64_t first = 0; first < size;) {
    if (first > 0) CHX_RETURN_IF_ERROR(stream.Pause());
    const int64_t last = size - first > part ? first + part : size;
    CHX_RETURN_IF_ERROR(launch(first, last));
    first = last;
  }
  return absl::OkStatus();
}

// body(i) for each i in [0, size), in any order. `cost`: as of InLaunches.
template <typename Body>
absl::Status ForEach(const KernelArgs& args, int64_t size, const Body& body, int64_t cost = 1) {
  KernelStream& stream = StreamOf(args);
  return InLaunches(stream, size, cost, [&](int64_t first, int64_t last) -> absl::Status {
#ifdef __CUDACC__
    const int64_t blocks = std::min(kMaxBlocks, (last - first + kThreads - 1) / kThreads);
    const auto handle = static_cast<cudaStream_t>(stream.handle());
    ForEachKernel<<<static_cast<unsigned>(blocks), kThreads, 0, handle>>>(body, first, last);
    return stream.Launched();
#else
    stream.Emulate([body, first, last] {
      for (int64_t i = first; i < last; ++i) body(i);
    });
    return absl::OkStatus();
#endif
  });
}

// For each block, Body::Combine combines every thread's body.Gather(block, thread) over the threads
// of its group, in a fixed order, and body.Finish(block, thread, combined) is called.
template <typename Body>
absl::Status ForEachGroup(const KernelArgs& args, int64_t blocks, const Body& body) {
  if (blocks == 0) return absl::OkStatus();
#ifdef __CUDACC__
  KernelStream& stream = StreamOf(args);
  const auto handle = static_cast<cudaStream_t>(stream.handle());
  const auto grid = static_cast<unsigned>(std::min(kMaxBlocks, blocks));
  GatherKernel<<<grid, kThreads, 0, handle>>>(body, blocks);
  return stream.Launched();
#else
  StreamOf(args).Emulate([body, blocks] {
    using Acc = typename Body::Acc;
    for (int64_t block = 0; block < blocks; ++block) {
      Acc shared[kThreads];
      for (int thread = 0; thread < kThreads; ++thread) shared[thread] = body.Gather(block, thread);
      for (int step = body.groups.size() / 2; step > 0; step /= 2) {
        for (int thread = 0; thread < kThreads; ++thread) {
          if (body.groups.RankOf(thread) >= step) continue;
          shared[thread] = Body::Combine(shared[thread], shared[body.groups.Ahead(thread, step)]);
        }
      }
      for (int thread = 0; thread < kThreads; ++thread) {
        body.Finish(block, thread, shared[body.groups.First(thread)]);
      }
    }
  });
  return absl::OkStatus();
#endif
}

// *target = max(*target, value). The result does not depend on the order of threads.
CHX_HD void AtomicMax(uint64_t* target, uint64_t value) {
#ifdef __CUDA_ARCH__
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "CUDA's type");  // NOLINT
  atomicMax(reinterpret_cast<unsigned long long*>(target), value);               // NOLINT
#else
  if (value > *target) *target = value;
#endif
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_LAUNCH_H_
