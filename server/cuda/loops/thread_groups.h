// How a block's threads share reductions: groups of `count` lanes, each group for one result.
#ifndef CHX_SERVER_CUDA_LANES_H_
#define CHX_SERVER_CUDA_LANES_H_

#include <cstdint>

#include "server/kernels/hd.h"

namespace chx::server::cuda {

inline constexpr int kThreads = 256;  // of every block

// The smallest power of two that is >= n, for 1 <= n <= 2^62.
constexpr int64_t PowerOfTwoAtLeast(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// Neighbouring threads are lanes of one group, or (by_columns) lane i of neighbouring groups,
// whichever makes them read neighbouring memory.
class Lanes {
 public:
  Lanes() = default;
  Lanes(int count, bool by_columns) : count_(count), by_columns_(by_columns) {}

  CHX_HD int count() const { return count_; }  // a power of two
  CHX_HD int groups() const { return kThreads / count_; }
  CHX_HD int LaneOf(int thread) const {
    return by_columns_ ? thread / groups() : thread & (count_ - 1);
  }
  CHX_HD int GroupOf(int thread) const {
    return by_columns_ ? thread & (groups() - 1) : thread / count_;
  }
  // The thread `lanes` further in the same group.
  CHX_HD int Ahead(int thread, int lanes) const {
    return thread + (by_columns_ ? lanes * groups() : lanes);
  }
  // Lane 0 of the same group.
  CHX_HD int First(int thread) const {
    return by_columns_ ? thread & (groups() - 1) : thread & ~(count_ - 1);
  }

 private:
  int count_ = 1;
  bool by_columns_ = false;
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LANES_H_
