#include "server/engine/large_blocks.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace chx::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// Addresses that nobody reads or writes.
char* At(int64_t offset) { return reinterpret_cast<char*>(offset + 64 * kMiB); }

char* Take(LargeBlocks* blocks, int64_t bytes, int64_t* got) {
  *got = bytes;
  return blocks->Take(got);
}

TEST(LargeBlocksTest, ASlabOfTheHostIsOneBlock) {
  LargeBlocks blocks(/*divides=*/false);
  blocks.Add({At(0), 8 * kMiB});
  int64_t got;
  EXPECT_EQ(Take(&blocks, 2 * kMiB, &got), nullptr);
  EXPECT_EQ(Take(&blocks, 7 * kMiB, &got), At(0));
  EXPECT_EQ(got, 8 * kMiB);
  blocks.Give(At(0), 8 * kMiB);
  ASSERT_EQ(blocks.TakeUnused().size(), 1);
  EXPECT_TRUE(blocks.TakeUnused().empty());
}

TEST(LargeBlocksTest, WhatWasFreedLastGoesOutFirst) {
  for (const bool divides : {false, true}) {
    LargeBlocks blocks(divides);
    int64_t got;
    for (int64_t i = 0; i < 3; ++i) {
      blocks.Add({At(4 * i * kMiB), 2 * kMiB});
      Take(&blocks, 2 * kMiB, &got);
    }
    for (const int64_t i : {1, 2, 0}) blocks.Give(At(4 * i * kMiB), 2 * kMiB);
    EXPECT_EQ(Take(&blocks, 2 * kMiB, &got), At(0));
    EXPECT_EQ(Take(&blocks, 2 * kMiB, &got), At(8 * kMiB));
  }
}

TEST(LargeBlocksTest, OtherShapesNeedNoOtherSlab) {
  LargeBlocks blocks(/*divides=*/true);
  blocks.Add({At(0), 20 * kMiB});
  for (const int64_t parts : {2, 4, 3, 5, 1, 7}) {
    const int64_t size = 20 * kMiB / parts;
    std::vector<std::pair<char*, int64_t>> taken;
    for (int64_t i = 0; i < parts; ++i) {
      int64_t got;
      char* const data = Take(&blocks, size, &got);
      ASSERT_NE(data, nullptr) << parts << " " << i;
      taken.emplace_back(data, got);
    }
    EXPECT_TRUE(blocks.TakeUnused().empty());
    for (const auto& [data, bytes] : taken) blocks.Give(data, bytes);
  }
  const std::vector<Slab> unused = blocks.TakeUnused();
  ASSERT_EQ(unused.size(), 1);
  EXPECT_EQ(unused[0].data, At(0));
  EXPECT_EQ(unused[0].bytes, 20 * kMiB);
}

TEST(LargeBlocksTest, NeighboursOfAnotherSlabDoNotJoin) {
  LargeBlocks blocks(/*divides=*/true);
  blocks.Add({At(0), 20 * kMiB});
  blocks.Add({At(20 * kMiB), 20 * kMiB});
  int64_t got;
  EXPECT_EQ(Take(&blocks, 40 * kMiB, &got), nullptr);
  char* const first = Take(&blocks, 20 * kMiB, &got);
  char* const second = Take(&blocks, 20 * kMiB, &got);
  blocks.Give(first, 20 * kMiB);
  blocks.Give(second, 20 * kMiB);
  EXPECT_EQ(Take(&blocks, 40 * kMiB, &got), nullptr);
  EXPECT_EQ(blocks.TakeUnused().size(), 2);
}

TEST(LargeBlocksTest, SmallSlabsAreWhole) {
  LargeBlocks blocks(/*divides=*/true);
  blocks.Add({At(0), 3 * kMiB});
  blocks.Add({At(3 * kMiB), 20 * kMiB});
  int64_t got;
  EXPECT_EQ(Take(&blocks, 2 * kMiB, &got), At(3 * kMiB));
  EXPECT_EQ(got, 2 * kMiB);
  EXPECT_EQ(Take(&blocks, 5 * kMiB / 2, &got), At(0));
  EXPECT_EQ(got, 3 * kMiB);
}

TEST(LargeBlocksTest, RandomUse) {
  const unsigned seed = std::random_device()();
  std::printf("seed %u\n", seed);
  std::mt19937 rng(seed);
  LargeBlocks blocks(/*divides=*/true);
  std::map<char*, int64_t> in_use;
  std::map<char*, int64_t> slabs;
  int64_t end = 0;
  for (int step = 0; step < 20000; ++step) {
    if (in_use.empty() || rng() % 2 == 0) {
      const int64_t wanted = static_cast<int64_t>(1 + rng() % 64) << 16;
      int64_t got = wanted;
      char* data = blocks.Take(&got);
      if (data == nullptr) {
        const int64_t bytes =
            std::max<int64_t>(wanted, static_cast<int64_t>(rng() % 2) * 24 * kMiB);
        slabs[At(end)] = bytes;
        blocks.Add({At(end), bytes});
        end += bytes + (rng() % 2 == 0 ? kMiB : 0);  // some touch each other
        got = wanted;
        data = blocks.Take(&got);
      }
      ASSERT_NE(data, nullptr);
      ASSERT_GE(got, wanted);
      // Inside of one slab, and apart from all others in use.
      const auto slab = std::prev(slabs.upper_bound(data));
      ASSERT_LE(data + got, slab->first + slab->second);
      const auto next = in_use.lower_bound(data);
      if (next != in_use.end()) {
        ASSERT_LE(data + got, next->first);
      }
      if (next != in_use.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, data);
      }
      in_use.emplace(data, got);
    } else {
      const auto block = std::next(in_use.begin(), static_cast<int64_t>(rng() % in_use.size()));
      blocks.Give(block->first, block->second);
      in_use.erase(block);
    }
    if (rng() % 1000 == 0) {
      for (const Slab& slab : blocks.TakeUnused()) {
        ASSERT_EQ(slabs.at(slab.data), slab.bytes);
        slabs.erase(slab.data);
        const auto used = in_use.lower_bound(slab.data);
        ASSERT_TRUE(used == in_use.end() || used->first >= slab.data + slab.bytes);
      }
    }
  }
  for (const auto& [data, bytes] : in_use) blocks.Give(data, bytes);
  EXPECT_EQ(blocks.TakeUnused().size(), slabs.size());
}

}  // namespace
}  // namespace chx::server
