// Arrays whose memory the user sees, as NumPy arrays for example.
#ifndef CHX_CLIENT_EXPORTS_H_
#define CHX_CLIENT_EXPORTS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "client/array.h"
#include "client/segments.h"

namespace chx {

// Keeps an array and the mapping of its memory as long as it lives.
class Export {
 public:
  Export(ArrayPtr array, MappingPtr mapping, char* block, int64_t block_bytes, ArraySpec spec);
  ~Export();
  Export(const Export&) = delete;

  const ArrayPtr& array() const { return array_; }
  // As the daemon has it; the strides may differ from array()->spec's if that is a gradient.
  const ArraySpec& spec() const { return spec_; }
  // The block that the array lies in; spec().offset counts from here.
  char* block() const { return block_; }
  int64_t block_bytes() const { return block_bytes_; }

 private:
  const ArrayPtr array_;
  const MappingPtr mapping_;
  char* const block_;
  const int64_t block_bytes_;
  const ArraySpec spec_;
};

// A session's live exports. Thread-safe.
class Exports {
 public:
  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  void Add(const Export* exported);
  void Remove(const Export* exported);
  // Whether an operator on the array may read or write memory that is exported.
  bool Touches(const ArrayBody& array);
  // The array whose block has these bytes, and what it was exported as; null: there is none.
  ArrayPtr Find(const char* begin, const char* end, ArraySpec* spec, const char** block);

 private:
  std::atomic<int> count_{0};
  Mutex mutex_;
  int unknown_ ABSL_GUARDED_BY(mutex_) = 0;  // exports whose storage is unknown
  absl::flat_hash_map<Handle, int> storages_ ABSL_GUARDED_BY(mutex_);
  std::multimap<const char*, const Export*> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_CLIENT_EXPORTS_H_
