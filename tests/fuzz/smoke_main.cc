// A fuzz target without libFuzzer: the seeds, their mutations and random bytes for a few seconds.
// SMOKE [SECONDS [SEED]], or SMOKE --write-seeds DIRECTORY for libFuzzer to start from.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <string>

#include "tests/fuzz/target.h"

namespace chx {
namespace {

int WriteSeeds(const std::string& directory) {
  int number = 0;
  for (const std::string& seed : FuzzSeeds()) {
    std::ofstream file(directory + "/seed" + std::to_string(number++), std::ios::binary);
    if (!(file << seed)) return 1;
  }
  return 0;
}

// One to eight places change: a bit, a byte, or a stretch copied, inserted or cut out.
std::string Mutated(std::string input, std::mt19937_64* random) {
  for (uint64_t n = 1 + (*random)() % 8; n > 0 && !input.empty(); --n) {
    const size_t at = (*random)() % input.size();
    const size_t from = (*random)() % input.size();
    const size_t length = 1 + (*random)() % 16;
    switch ((*random)() % 5) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << ((*random)() % 8)));
        break;
      case 1:
        input[at] = static_cast<char>((*random)());
        break;
      case 2:
        input.replace(at, length, input.substr(from, length));
        break;
      case 3:
        input.insert(at, input.substr(from, length));
        break;
      default:
        input.erase(at, length);
    }
  }
  return input;
}

std::string Anything(std::mt19937_64* random) {
  std::string input((*random)() % 1000, '\0');
  for (char& byte : input) byte = static_cast<char>((*random)());
  return input;
}

int Smoke(double seconds, uint64_t seed) {
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  const std::vector<std::string> seeds = FuzzSeeds();
  const auto run = [](const std::string& input) {
    // A copy of its own size, so that AddressSanitizer sees its end.
    const std::vector<uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  };
  for (const std::string& input : seeds) run(input);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    run(random() % 4 == 0 ? Anything(&random) : Mutated(seeds[random() % seeds.size()], &random));
  }
  std::cout << seeds.size() << " seeds, " << runs << " mutations and random inputs\n"
            << FuzzCounts() << std::flush;
  return 0;
}

}  // namespace
}  // namespace chx

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "5";
  if (first == "--write-seeds" && argc == 3) return chx::WriteSeeds(argv[2]);
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : std::random_device()();
  return chx::Smoke(std::atof(first.c_str()), seed);
}
