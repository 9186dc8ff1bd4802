// The form of kernels on rows of dense elements: the threads of a group share a row. Each keeps its
// elements in registers from the reduction of the row to what is made of it, unless there are too
// many; then they are read twice.
#ifndef CHX_SERVER_CUDA_LOOPS_ROWS_H_
#define CHX_SERVER_CUDA_LOOPS_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "absl/status/status.h"
#include "ops/error.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/thread_groups.h"
#include "server/kernels/types.h"

namespace chx::server::cuda {

inline constexpr int kLogThreads = 8;
static_assert(kThreads == 1 << kLogThreads, "of a block");

// Whether a row is not too long for one group of threads. Other kernels divide rows among blocks.
inline bool FitsGroup(int64_t rows, int64_t n) {
  return n <= (int64_t{1} << 16) || (n <= (int64_t{1} << 22) && rows >= 128);
}

// Stores a pack. Without the intrinsic, nvcc stores its words one by one in some loops.
template <typename T, int kCount>
CHX_HD void StorePack(const Pack<T, kCount>& pack, T* to) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    uint4 words;
    memcpy(&words, &pack, sizeof(words));
    __stwb(reinterpret_cast<uint4*>(to), words);
    return;
  }
#endif
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// How a thread goes through its elements of a row of n, which are in steps of kItems: kPacks packs
// of kPackSize neighbours. Neighbouring threads have neighbouring packs. kWhole: there is one step,
// so that what Load has read is all. Plain data, for host and device.
template <int kPackSize, int kPacks, bool kWholeRow>
class RowLoop {
 public:
  static constexpr bool kWhole = kWholeRow;
  static constexpr int kPack = kPackSize;
  static constexpr int kItems = kPackSize * kPacks;
  template <typename C>
  struct Items {
    C at[kItems];
  };

  RowLoop() = default;
  // FitsGroup, and n > 0.
  explicit RowLoop(int64_t n) : n_(static_cast<int>(n)) {
    const int64_t packs = std::min<int64_t>(kWarp, (n + kPackSize - 1) / kPackSize);
    const int64_t threads = std::max(packs, (n + kItems - 1) / kItems);
    while (log_threads_ < kLogThreads && (1 << log_threads_) < threads) ++log_threads_;
  }

  CHX_HD int n() const { return n_; }
  // Of a group, which are neighbours, and of how many rows a block has; powers of two.
  CHX_HD int threads() const { return 1 << log_threads_; }
  CHX_HD int rows() const { return kThreads >> log_threads_; }
  CHX_HD int RankOf(int thread) const { return thread & (threads() - 1); }
  CHX_HD int GroupOf(int thread) const { return thread >> log_threads_; }
  // From the beginning of one step to that of the next; n() or more after the last.
  CHX_HD int Next(int begin) const { return kWhole ? n_ : begin + threads() * kItems; }

  // fn(i, at) for each of the thread's packs of a step: items i, ... are the row's elements at, ...
  template <typename Fn>
  CHX_HD void ForPacks(int begin, int rank, Fn fn) const {
    CHX_UNROLL
    for (int pack = 0; pack < kPacks; ++pack) {
      const int at = begin + (pack * threads() + rank) * kPackSize;
      if (at < n_) fn(pack * kPackSize, at);
    }
  }
  // The thread's elements of a step, and 0 beyond the row's end.
  template <typename T>
  CHX_HD void Load(const T* row, int begin, int rank, Items<kernels::Compute<T>>* items) const {
    CHX_UNROLL
    for (int i = 0; i < kItems; ++i) items->at[i] = kernels::Compute<T>(0);
    ForPacks(begin, rank, [&](int i, int at) {
      const Pack<T, kPackSize> pack = *reinterpret_cast<const Pack<T, kPackSize>*>(row + at);
      CHX_UNROLL
      for (int j = 0; j < kPackSize; ++j) items->at[i + j] = kernels::Load(pack.elements[j]);
    });
  }
  // Stores fn(i) for each item i.
  template <typename T, typename Fn>
  CHX_HD void Store(T* row, int begin, int rank, Fn fn) const {
    ForPacks(begin, rank, [&](int i, int at) {
      Pack<T, kPackSize> pack;
      CHX_UNROLL
      for (int j = 0; j < kPackSize; ++j) pack.elements[j] = kernels::Store<T>(fn(i + j));
      StorePack(pack, row + at);
    });
  }

 private:
  int n_ = 0;
  int log_threads_ = 0;
};

// 16 bytes at a time, where rows allow it.
template <typename T>
inline constexpr int kRowPack = 16 / static_cast<int>(sizeof(T));

// Returns fn(the RowLoop for rows of n elements T). kRegisters: for elements, in 4 bytes each; 16
// or
// 32. `arrays`: what is read and written along rows.
template <typename T, int kRegisters, typename Fn>
absl::Status VisitRowLoop(int64_t n, std::initializer_list<const void*> arrays, Fn fn) {
  constexpr int kWords = sizeof(T) == 8 ? 2 : 1;
  constexpr int kFew = 8 / kWords;
  constexpr int kUsual = 16 / kWords;
  constexpr int kMost = kRegisters / kWords;
  constexpr int kPack = kRowPack<T>;
  const bool packs = n % kPack == 0 && std::all_of(arrays.begin(), arrays.end(), [](const void* p) {
                       return reinterpret_cast<uintptr_t>(p) % 16 == 0;
                     });
  if (!packs) {
    if (n <= kThreads * kFew) return fn(RowLoop<1, kFew, true>(n));
    return fn(RowLoop<1, kFew, false>(n));
  }
  if (n <= kThreads * kUsual) return fn(RowLoop<kPack, kUsual / kPack, true>(n));
  if constexpr (kMost > kUsual) {
    if (n <= kThreads * kMost) return fn(RowLoop<kPack, kMost / kPack, true>(n));
  }
  return fn(RowLoop<kPack, kUsual / kPack, false>(n));
}

#ifdef __CUDACC__

// The accumulators of lanes that are `step` apart, combined with the lower lane's first, so that
// both have the same result.
template <typename Body>
__device__ __forceinline__ typename Body::Acc CombineLanes(const typename Body::Acc& acc,
                                                           int step) {
  using Acc = typename Body::Acc;
  constexpr int kWords = static_cast<int>(sizeof(Acc) / sizeof(uint32_t));
  static_assert(sizeof(Acc) % sizeof(uint32_t) == 0, "whole words");
  uint32_t words[kWords];
  memcpy(words, &acc, sizeof(acc));
  CHX_UNROLL
  for (int i = 0; i < kWords; ++i) words[i] = __shfl_xor_sync(0xffffffffu, words[i], step);
  Acc other;
  memcpy(&other, words, sizeof(other));
  const bool upper = (threadIdx.x & static_cast<unsigned>(step)) != 0;
  return upper ? Body::Combine(other, acc) : Body::Combine(acc, other);
}

// For every thread the accumulators of its group, combined. All threads of the block call it.
template <typename Body>
__device__ __forceinline__ typename Body::Acc CombineGroup(const Body& body,
                                                           typename Body::Acc acc) {
  using Acc = typename Body::Acc;
  // Not an array of Acc, which may have constructors.
  __shared__ alignas(16) unsigned char memory[kThreads / kWarp * sizeof(Acc)];
  Acc* const shared = reinterpret_cast<Acc*>(memory);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = body.loop.threads();
  for (int step = 1; step < threads && step < kWarp; step *= 2) {
    acc = CombineLanes<Body>(acc, step);
  }
  if (threads <= kWarp) return acc;
  const int warps = threads / kWarp;
  if (thread % kWarp == 0) shared[thread / kWarp] = acc;
  __syncthreads();
  // Each lane has that of one of the group's warps.
  acc = shared[body.loop.GroupOf(thread) * warps + (thread & (warps - 1))];
  __syncthreads();  // before they are overwritten
  for (int step = 1; step < warps; step *= 2) acc = CombineLanes<Body>(acc, step);
  return acc;
}

template <typename Body>
__global__ void __launch_bounds__(kThreads)
    RowKernel(const Body body, int64_t first, int64_t last) {
  const int thread = static_cast<int>(threadIdx.x);
  const int rank = body.loop.RankOf(thread);
  const int64_t step = int64_t{gridDim.x} * body.loop.rows();
  // As many times in every thread, because its warp combines together.
  for (int64_t begin = first + int64_t{blockIdx.x} * body.loop.rows(); begin < last;
       begin += step) {
    const int64_t row = begin + body.loop.GroupOf(thread);
    typename Body::Held held;
    typename Body::Acc acc{};
    if (row < last) acc = body.Gather(row, rank, &held);
    acc = CombineGroup(body, acc);
    if (row < last) body.Finish(row, rank, &held, acc);
  }
}

#endif  // __CUDACC__

#ifndef __CUDACC__

template <typename Body>
void EmulateRow(const Body& body, int64_t row) {
  typename Body::Held held[kThreads];
  typename Body::Acc acc[kThreads];
  const int size = body.loop.threads();
  for (int rank = 0; rank < size; ++rank) acc[rank] = body.Gather(row, rank, &held[rank]);
  for (int step = 1; step < size; step *= 2) {
    for (int rank = 0; rank < size; ++rank) {
      if ((rank & step) != 0) continue;
      acc[rank] = acc[rank + step] = Body::Combine(acc[rank], acc[rank + step]);
    }
  }
  for (int rank = 0; rank < size; ++rank) body.Finish(row, rank, &held[rank], acc[rank]);
}

#endif

// What a body's Gather returns that loads a step at a time (Load(row, begin, rank, held)) and
// combines what OfStep(begin, rank, held) makes of each.
template <typename Body, typename Held>
CHX_HD auto GatherSteps(const Body& body, int64_t row, int rank, Held* held) {
  body.Load(row, 0, rank, held);
  auto acc = body.OfStep(0, rank, *held);
  for (int begin = body.loop.Next(0); begin < body.loop.n(); begin = body.loop.Next(begin)) {
    body.Load(row, begin, rank, held);
    acc = Body::Combine(acc, body.OfStep(begin, rank, *held));
  }
  return acc;
}

// For each row, Body::Combine combines what body.Gather(row, rank, &held) returns for the threads
// of a group, in a fixed order, and each calls body.Finish(row, rank, &held, combined). body.loop
// is a RowLoop.
template <typename Body>
absl::Status ForEachRow(const KernelArgs& args, int64_t rows, const Body& body) {
  KernelStream& stream = StreamOf(args);
  return InLaunches(stream, rows, body.loop.n(), [&](int64_t first, int64_t last) -> absl::Status {
#ifdef __CUDACC__
    const int count = body.loop.rows();
    const int64_t blocks = std::min(kMaxBlocks, (last - first + count - 1) / count);
    const auto handle = static_cast<cudaStream_t>(stream.handle());
    RowKernel<<<static_cast<unsigned>(blocks), kThreads, 0, handle>>>(body, first, last);
    return stream.Launched();
#else
    stream.Emulate([body, first, last] {
      for (int64_t row = first; row < last; ++row) EmulateRow(body, row);
    });
    return absl::OkStatus();
#endif
  });
}

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_ROWS_H_
