// Running sums by warps: a third form of kernels, beside those of launch.h.
#ifndef CHX_SERVER_CUDA_LOOPS_WARP_SCAN_H_
#define CHX_SERVER_CUDA_LOOPS_WARP_SCAN_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "ops/error.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/thread_groups.h"

namespace chx::server::cuda {

// One warp does each task, in steps. In a step every lane has Body::kParts parts of consecutive
// elements; the parts of all lanes are in the order of (part, lane). The body has
//   Acc, a type with an operator() of its own: Body::Combine(earlier, later)
//   Lane, what a lane keeps of a step, with totals[kParts]
//   int64_t Steps(task)
//   Acc Before(task): what comes before its elements
//   Lane Load(task, step, lane)
//   void Finish(task, step, lane, kept, before[kParts]): `before` combines all that precedes a part
//   void End(task, total): once, with all combined
// The order of combinations is fixed. It is that of __shfl_up_sync's usual scan.
#ifdef __CUDACC__

template <typename Body>
__global__ void __launch_bounds__(kThreads, 4)
    WarpScanKernel(const Body body, int64_t first, int64_t last) {
  using Acc = typename Body::Acc;
  constexpr unsigned kAll = 0xffffffffu;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t warps = int64_t{gridDim.x} * (kThreads / kWarp);
  int64_t task = first + (int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarp;
  for (; task < last; task += warps) {
    Acc carry = body.Before(task);
    const int64_t steps = body.Steps(task);
    for (int64_t step = 0; step < steps; ++step) {
      const typename Body::Lane kept = body.Load(task, step, lane);
      Acc before[Body::kParts];
      CHX_UNROLL
      for (int part = 0; part < Body::kParts; ++part) {
        Acc sum = kept.totals[part];
        CHX_UNROLL
        for (int distance = 1; distance < kWarp; distance *= 2) {
          const Acc earlier = static_cast<Acc>(__shfl_up_sync(kAll, sum, distance));
          if (lane >= distance) sum = Body::Combine(earlier, sum);
        }
        const Acc earlier = static_cast<Acc>(__shfl_up_sync(kAll, sum, 1));
        const Acc total = static_cast<Acc>(__shfl_sync(kAll, sum, kWarp - 1));
        before[part] = lane == 0 ? carry : Body::Combine(carry, earlier);
        carry = Body::Combine(carry, total);
      }
      body.Finish(task, step, lane, kept, before);
    }
    if (lane == 0) body.End(task, carry);
  }
}

#else

template <typename Body>
void EmulateWarpScan(const Body& body, int64_t task) {
  using Acc = typename Body::Acc;
  Acc carry = body.Before(task);
  const int64_t steps = body.Steps(task);
  for (int64_t step = 0; step < steps; ++step) {
    typename Body::Lane kept[kWarp];
    Acc before[kWarp][Body::kParts];
    for (int lane = 0; lane < kWarp; ++lane) kept[lane] = body.Load(task, step, lane);
    for (int part = 0; part < Body::kParts; ++part) {
      Acc sums[kWarp];
      for (int lane = 0; lane < kWarp; ++lane) sums[lane] = kept[lane].totals[part];
      for (int distance = 1; distance < kWarp; distance *= 2) {
        // From the last one: the earlier sums are still those of before.
        for (int lane = kWarp - 1; lane >= distance; --lane) {
          sums[lane] = Body::Combine(sums[lane - distance], sums[lane]);
        }
      }
      for (int lane = 0; lane < kWarp; ++lane) {
        before[lane][part] = lane == 0 ? carry : Body::Combine(carry, sums[lane - 1]);
      }
      carry = Body::Combine(carry, sums[kWarp - 1]);
    }
    for (int lane = 0; lane < kWarp; ++lane)
      body.Finish(task, step, lane, kept[lane], before[lane]);
  }
  body.End(task, carry);
}

#endif  // __CUDACC__

// `cost`: the elements of a task.
template <typename Body>
absl::Status ForEachWarp(const KernelArgs& args, int64_t tasks, const Body& body, int64_t cost) {
  KernelStream& stream = StreamOf(args);
  return InLaunches(stream, tasks, cost, [&](int64_t first, int64_t last) -> absl::Status {
#ifdef __CUDACC__
    constexpr int64_t kWarps = kThreads / kWarp;
    const int64_t blocks = std::min(kMaxBlocks, (last - first + kWarps - 1) / kWarps);
    const auto handle = static_cast<cudaStream_t>(stream.handle());
    WarpScanKernel<<<static_cast<unsigned>(blocks), kThreads, 0, handle>>>(body, first, last);
    return stream.Launched();
#else
    stream.Emulate([body, first, last] {
      for (int64_t task = first; task < last; ++task) EmulateWarpScan(body, task);
    });
    return absl::OkStatus();
#endif
  });
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_WARP_SCAN_H_
