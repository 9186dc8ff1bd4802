// What every fuzz target consists of, for libFuzzer and for the short run among the tests.
#ifndef CHX_TESTS_FUZZ_TARGET_H_
#define CHX_TESTS_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

// libFuzzer's name for it. Returns 0; whatever is wrong ends the process.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace chx {

// Inputs to start from.
std::vector<std::string> FuzzSeeds();
// Any bytes, of these lengths: for targets to which each input is a plan of what they do.
inline std::vector<std::string> AnySeeds(uint32_t state, std::initializer_list<size_t> lengths) {
  std::vector<std::string> seeds;
  for (size_t length : lengths) {
    std::string& seed = seeds.emplace_back();
    while (seed.size() < length) {
      state = state * 1664525 + 1013904223;
      seed.push_back(static_cast<char>(state >> 24));
    }
  }
  return seeds;
}
// What the runs of this process have reached: lines of names and counts.
std::string FuzzCounts();

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_TARGET_H_
