// A hash table whose memory is charged before it grows.
#ifndef CHX_SERVER_SESSION_CHARGED_TABLE_H_
#define CHX_SERVER_SESSION_CHARGED_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/engine/memory_budget.h"

namespace chx::server {

// absl::flat_hash_map doubles by itself, which for a million entries is hundreds of megabytes at
// once, and never becomes smaller. Here whoever inserts has reserved the room before. What the
// values have in the heap is theirs to charge. Used under its owner's lock, as the meter is.
template <typename Key, typename Value>
class ChargedTable {
 public:
  using Map = absl::flat_hash_map<Key, Value>;
  using iterator = typename Map::iterator;
  using const_iterator = typename Map::const_iterator;

  explicit ChargedTable(MemoryMeter* meter) : meter_(meter) {}
  ~ChargedTable() { meter_->Release(BytesOf(map_.capacity())); }
  ChargedTable(const ChargedTable&) = delete;
  ChargedTable& operator=(const ChargedTable&) = delete;

  // Makes room for `more` entries, which may move those that are there. False: there is no memory.
  bool Reserve(size_t more) {
    const size_t needed = map_.size() + more;
    return needed <= room_ || Grow(needed);
  }
  bool HasRoom(size_t more) const { return map_.size() + more <= room_; }

  // Both expect room for a new entry.
  template <typename... Args>
  std::pair<iterator, bool> try_emplace(const Key& key, Args&&... args) {
    return map_.try_emplace(key, std::forward<Args>(args)...);
  }
  Value& operator[](const Key& key) { return map_[key]; }
  // May move the other entries.
  void erase(iterator it) {
    map_.erase(it);
    if (map_.capacity() > kKept && map_.size() < map_.capacity() / 16) Shrink();
  }
  void clear() {
    map_.clear();
    Shrink();
  }

  iterator find(const Key& key) { return map_.find(key); }
  const_iterator find(const Key& key) const { return map_.find(key); }
  bool contains(const Key& key) const { return map_.contains(key); }
  iterator begin() { return map_.begin(); }
  iterator end() { return map_.end(); }
  const_iterator end() const { return map_.end(); }
  size_t size() const { return map_.size(); }

 private:
  static constexpr size_t kSmallest = 31;  // slots; always one less than a power of two
  static constexpr size_t kKept = 4095;    // so many are never given back

  static int64_t BytesOf(size_t capacity) {
    return static_cast<int64_t>(capacity * (sizeof(typename Map::value_type) + 1));
  }
  // Up to this size the table cleans itself in place, where erased entries are in the way.
  static size_t RoomOf(size_t capacity) { return capacity * 25 / 32; }

  bool Grow(size_t needed) {
    size_t capacity = std::max(map_.capacity(), kSmallest);
    while (RoomOf(capacity) < needed) capacity = 2 * capacity + 1;
    if (capacity == map_.capacity()) return true;
    // The old table is there until all have moved.
    if (!meter_->TryCharge(BytesOf(capacity))) return false;
    meter_->Release(BytesOf(map_.capacity()));
    map_.rehash(capacity);
    room_ = RoomOf(capacity);
    return true;
  }

  void Shrink() {
    const size_t before = map_.capacity();
    map_.rehash(0);
    meter_->Charge(BytesOf(map_.capacity()));
    meter_->Release(BytesOf(before));
    room_ = RoomOf(map_.capacity());
  }

  MemoryMeter* const meter_;
  Map map_;
  size_t room_ = 0;  // entries that the table holds without growing
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_CHARGED_TABLE_H_
