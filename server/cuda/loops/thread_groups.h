// How the threads of a block share reductions: groups of threads, one group for each result.
#ifndef CHX_SERVER_CUDA_LOOPS_THREAD_GROUPS_H_
#define CHX_SERVER_CUDA_LOOPS_THREAD_GROUPS_H_

#include <cstdint>

#include "server/kernels/host_device.h"

namespace chx::server::cuda {

inline constexpr int kThreads = 256;  // of every block
inline constexpr int kWarp = 32;

// The smallest power of two that is >= n, for 1 <= n <= 2^62.
constexpr int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// A thread has a group and a rank in it. Neighbouring threads are neighbours in one group or, with
// `by_columns`, have the same rank in neighbouring groups, whichever makes them read neighbouring
// memory. Plain data, for host and device.
class ThreadGroups {
 public:
  ThreadGroups() = default;
  ThreadGroups(int size, bool by_columns) : size_(size), by_columns_(by_columns) {}

  // Threads of each group, a power of two.
  CHX_HD int size() const { return size_; }
  // Groups of a block.
  CHX_HD int count() const { return kThreads / size_; }
  CHX_HD int RankOf(int thread) const {
    return by_columns_ ? thread / count() : thread & (size_ - 1);
  }
  CHX_HD int GroupOf(int thread) const {
    return by_columns_ ? thread & (count() - 1) : thread / size_;
  }
  // The thread of the same group whose rank is greater by `step`.
  CHX_HD int Ahead(int thread, int step) const {
    return thread + (by_columns_ ? step * count() : step);
  }
  // Whether threads of one group with ranks below 2 * `step` belong to one warp.
  CHX_HD bool WithinWarp(int step) const { return !by_columns_ && 2 * step <= kWarp; }
  // The thread of rank 0 in the same group.
  CHX_HD int First(int thread) const {
    return by_columns_ ? thread & (count() - 1) : thread & ~(size_ - 1);
  }

 private:
  int size_ = 1;
  bool by_columns_ = false;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_THREAD_GROUPS_H_
