// A shuffle that is easy to repeat in any language, for examples whose results are compared.
#ifndef CHX_CLIENT_EXAMPLES_SHUFFLE_H_
#define CHX_CLIENT_EXAMPLES_SHUFFLE_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace chx {

// Knuth's linear congruential generator (MMIX), whose upper 31 bits choose the partner in each step
// of Fisher and Yates' shuffle:
//   state = state * 6364136223846793005 + 1442695040888963407 (mod 2^64), from the seed on;
//   for i = n-1 ... 1: swap(v[i], v[(state >> 33) mod (i + 1)]).
// The state goes on from one shuffle to the next. Used by one thread.
class Shuffler {
 public:
  explicit Shuffler(uint64_t seed) : state_(seed) {}

  void Shuffle(std::vector<int64_t>* values) {
    for (uint64_t i = values->size(); i-- > 1;) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      std::swap((*values)[i], (*values)[(state_ >> 33) % (i + 1)]);
    }
  }

 private:
  uint64_t state_;
};

}  // namespace chx

#endif  // CHX_CLIENT_EXAMPLES_SHUFFLE_H_
