// The state of a session's random numbers.
#ifndef CHX_CLIENT_RANDOM_COUNTER_H_
#define CHX_CLIENT_RANDOM_COUNTER_H_

#include <cstdint>

#include "base/mutex.h"

namespace chx {

// Random operators are functions of a seed and a counter. Owned by a Session. Thread-safe.
class RandomCounter {
 public:
  struct State {
    int64_t seed = 0;
    int64_t counter = 0;
  };

  void Seed(uint64_t seed) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    seed_ = seed;
    counter_ = 0;
  }
  // The state for an operator that makes so many elements, and steps over what it uses. A block of
  // the generator serves one element at least: no block is used twice.
  State Take(int64_t elements) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const State state = {static_cast<int64_t>(seed_), static_cast<int64_t>(counter_)};
    counter_ += static_cast<uint64_t>(elements) + 1;
    return state;
  }

  State Now() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return {static_cast<int64_t>(seed_), static_cast<int64_t>(counter_)};
  }
  void Set(const State& state) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    seed_ = static_cast<uint64_t>(state.seed);
    counter_ = static_cast<uint64_t>(state.counter);
  }

 private:
  Mutex mutex_;
  uint64_t seed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t counter_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chx

#endif  // CHX_CLIENT_RANDOM_COUNTER_H_
