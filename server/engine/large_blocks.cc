#include "server/engine/large_blocks.h"

#include <iterator>

namespace chx::server {

char* LargeBlocks::Take(int64_t* bytes) {
  const auto block = free_.lower_bound(*bytes);
  if (block == free_.end()) return nullptr;
  const auto [size, data] = *block;
  if (!divides_) {
    if (size > *bytes + *bytes / 4) return nullptr;
    free_.erase(block);
    *bytes = size;
    return data;
  }
  Erase(places_.find(data));
  if (size - *bytes < kLeastPart) {
    *bytes = size;
  } else {
    Insert(data + *bytes, size - *bytes);
  }
  return data;
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
