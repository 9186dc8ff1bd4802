// EpochOrder of client/run.h.
#include <algorithm>
#include <array>

#include "client/run.h"

namespace chx {
namespace {

// The block of Philox4x32-10 with this key and these words as its counter (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", 2011).
std::array<uint32_t, 4> Philox(uint64_t key, std::array<uint32_t, 4> c) {
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

}  // namespace

std::vector<int64_t> EpochOrder(uint64_t seed, int64_t epoch, int64_t rows) {
  std::vector<std::pair<uint64_t, int64_t>> keys;
  for (int64_t row = 0; row < rows; row += 2) {
    const auto counter = static_cast<uint64_t>(row / 2);
    const std::array<uint32_t, 4> words =
        Philox(seed, {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                      static_cast<uint32_t>(epoch), 0});
    keys.emplace_back(uint64_t{words[1]} << 32 | words[0], row);
    if (row + 1 < rows) keys.emplace_back(uint64_t{words[3]} << 32 | words[2], row + 1);
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> order;
  order.reserve(keys.size());
  for (const auto& [key, row] : keys) order.push_back(row);
  return order;
}

}  // namespace chx
