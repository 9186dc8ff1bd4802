// What every fuzz target consists of, for libFuzzer and for the short run among the tests.
#ifndef CHX_TESTS_FUZZ_TARGET_H_
#define CHX_TESTS_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// libFuzzer's name for it. Returns 0; whatever is wrong ends the process.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace chx {

// Inputs to start from.
std::vector<std::string> FuzzSeeds();
// What the runs of this process have reached: lines of names and counts.
std::string FuzzCounts();

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_TARGET_H_
