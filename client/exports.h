// Arrays whose memory the user sees, as NumPy arrays for example.
#ifndef CHX_CLIENT_EXPORTS_H_
#define CHX_CLIENT_EXPORTS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/array.h"
#include "client/segments.h"

namespace chx {

// Keeps an array and the mapping of its memory as long as it lives. Owned by the user. Immutable.
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
  // False: the array is shared with other sessions, and only operators write to it.
  bool writable() const { return mapping_->writable(); }

 private:
  const ArrayPtr array_;
  const MappingPtr mapping_;
  char* const block_;
  const int64_t block_bytes_;
  const ArraySpec spec_;
};

// Makes exports, knows those that live, and arrays over their memory.
//
// Owned by a Session. Thread-safe. Its lock is never held together with another one.
class Exports {
 public:
  explicit Exports(Session* session) : session_(*session) {}
  Exports(const Exports&) = delete;

  // Waits until all that was called is done, and then shows the array's memory. As long as the
  // result lives, operators on that memory, backward passes among them, have run when their calls
  // return. Null if the memory is not shared: it is another host's or a GPU's, or none is left.
  absl::StatusOr<std::unique_ptr<Export>> ExportArray(const ArrayPtr& array);
  // The array over memory inside of what is exported; spec.offset is ignored. Null if `first` is
  // not there, or kernels cannot work with the array as it lies: then it is to be copied.
  absl::StatusOr<ArrayPtr> ImportArray(const char* first, ArraySpec spec);

  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }
  // Whether an operator on the arrays may read or write memory that is exported.
  bool Touches(absl::Span<const Operand> inputs) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the operators on exported memory have run.
  absl::Status Synchronize();

 private:
  friend class Export;
  void Add(const Export* exported) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(const Export* exported) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Touches(const ArrayBody& array) ABSL_LOCKS_EXCLUDED(mutex_);
  // The array whose block has these bytes, and what it was exported as; null: there is none.
  ArrayPtr Find(const char* begin, const char* end, ArraySpec* spec, const char** block)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The array under another handle.
  absl::StatusOr<ArrayPtr> ViewOf(const ArrayBody& array);

  Session& session_;
  std::atomic<int> count_{0};
  Mutex mutex_;
  int unknown_ ABSL_GUARDED_BY(mutex_) = 0;  // exports whose storage is unknown
  absl::flat_hash_map<Handle, int> storages_ ABSL_GUARDED_BY(mutex_);
  std::multimap<const char*, const Export*> by_address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_CLIENT_EXPORTS_H_
