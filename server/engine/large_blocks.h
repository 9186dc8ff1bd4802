// The large blocks of a pool that are not in use, and the slabs that they are parts of.
#ifndef CHX_SERVER_ENGINE_LARGE_BLOCKS_H_
#define CHX_SERVER_ENGINE_LARGE_BLOCKS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace chx::server {

// A piece of a device's memory.
struct Slab {
  char* data;
  int64_t bytes;
};

// Of the host's memory, each slab is one block. Of a device's own, a block of a large slab is
// divided where less is wanted, and joins its neighbours when it is free: slabs are slow to come by
// there, so that arrays of varying shapes must not need new ones. Used under the pool's lock.
class LargeBlocks {
 public:
  // Of what is divided, no smaller part is left over.
  static constexpr int64_t kLeastPart = int64_t{512} << 10;

  explicit LargeBlocks(bool divides) : divides_(divides) {}

  // A block of *bytes or more, whose size *bytes becomes; null: there is none. Undivided, it is at
  // most a quarter larger.
  char* Take(int64_t* bytes);
  void Give(char* data, int64_t bytes);
  // A slab of the device, all of it a free block.
  void Add(const Slab& slab);
  // Those of which nothing is in use: they are no longer here.
  std::vector<Slab> TakeUnused();

 private:
  using BySize = std::multimap<int64_t, char*>;

  void Insert(char* data, int64_t bytes);
  void Erase(std::map<char*, BySize::iterator>::iterator block);

  const bool divides_;
  BySize free_;
  // If it divides: the free blocks by address, and the sizes of slabs.
  std::map<char*, BySize::iterator> places_;
  std::map<char*, int64_t> slabs_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_LARGE_BLOCKS_H_
