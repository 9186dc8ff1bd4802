#include "server/engine/large_blocks.h"

#include <iterator>

namespace chx::server {
namespace {

// Of smaller slabs a part that is left over is seldom of use, and the array that was to come back
// to them later has no place.
constexpr int64_t kLeastDivided = int64_t{20} << 20;

}  // namespace

char* LargeBlocks::Take(int64_t* bytes) {
  for (auto block = free_.lower_bound(*bytes); block != free_.end(); ++block) {
    const auto [size, data] = *block;
    const bool divides = divides_ && std::prev(slabs_.upper_bound(data))->second >= kLeastDivided;
    if (!divides && size > *bytes + *bytes / 4) {
      if (divides_) continue;
      return nullptr;  // all are whole slabs, and the others are larger still
    }
    free_.erase(block);
    if (divides_) places_.erase(data);
    if (divides && size - *bytes >= kLeastPart) {
      Insert(data + *bytes, size - *bytes);
    } else {
      *bytes = size;
    }
    return data;
  }
  return nullptr;
}

void LargeBlocks::Give(char* data, int64_t bytes) {
  if (!divides_) return Insert(data, bytes);
  const auto next = places_.lower_bound(data);
  if (next != places_.end() && next->first == data + bytes && slabs_.count(next->first) == 0) {
    bytes += next->second->first;
    Erase(next);
  }
  const auto after = places_.lower_bound(data);
  if (after != places_.begin() && slabs_.count(data) == 0) {
    const auto before = std::prev(after);
    if (before->first + before->second->first == data) {
      data = before->first;
      bytes += before->second->first;
      Erase(before);
    }
  }
  Insert(data, bytes);
}

void LargeBlocks::Add(const Slab& slab) {
  if (divides_) slabs_.emplace(slab.data, slab.bytes);
  Insert(slab.data, slab.bytes);
}

std::vector<Slab> LargeBlocks::TakeUnused() {
  std::vector<Slab> unused;
  if (!divides_) {
    for (const auto& [bytes, data] : free_) unused.push_back({data, bytes});
    free_.clear();
    return unused;
  }
  for (auto slab = slabs_.begin(); slab != slabs_.end();) {
    const auto block = places_.find(slab->first);
    if (block == places_.end() || block->second->first != slab->second) {
      ++slab;
      continue;
    }
    unused.push_back({slab->first, slab->second});
    Erase(block);
    slab = slabs_.erase(slab);
  }
  return unused;
}

void LargeBlocks::Insert(char* data, int64_t bytes) {
  // In front of its equals, so that the block whose memory is still in the caches goes out next.
  const auto block = free_.emplace_hint(free_.lower_bound(bytes), bytes, data);
  if (divides_) places_.emplace(data, block);
}

void LargeBlocks::Erase(std::map<char*, BySize::iterator>::iterator block) {
  free_.erase(block->second);
  places_.erase(block);
}

}  // namespace chx::server
