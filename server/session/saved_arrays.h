// Arrays that a session keeps under names, so that another process finds them there.
#ifndef CHX_SERVER_SESSION_SAVED_ARRAYS_H_
#define CHX_SERVER_SESSION_SAVED_ARRAYS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/ids.h"
#include "server/autograd/variable.h"
#include "server/engine/memory_budget.h"
#include "server/session/handle_table.h"

namespace chx::server {

// Belongs to a session and is used under its lock. A name refers to arrays as a handle does: what
// is written to them later is seen under the name.
class SavedArrays {
 public:
  struct Entry {
    uint64_t version = 0;
    std::string tree;              // the client's, who alone reads it
    std::vector<Variable> arrays;  // in the default graph as leaves, or in no graph
    int64_t bytes = 0;             // charged
  };

  explicit SavedArrays(MemoryMeter* meter) : meter_(meter) {}
  ~SavedArrays() { Clear(); }
  SavedArrays(const SavedArrays&) = delete;

  // Replaces what was there. Returns how many of the arrays were computed in a graph: they are kept
  // without it.
  absl::StatusOr<uint64_t> Save(absl::string_view name, absl::string_view tree,
                                absl::Span<Variable* const> arrays);
  absl::StatusOr<const Entry*> Find(absl::string_view name) const;
  // Binds the arrays to new handles.
  absl::Status Load(absl::string_view name, uint64_t version, absl::Span<const Handle> results,
                    HandleTable* handles) const;
  absl::Status Forget(absl::string_view name);
  absl::Status NoteGenerator(absl::string_view state);
  // As a snapshot has it: a client may know the number.
  void RestoreVersion(const std::string& name, uint64_t version);
  uint64_t next_version() const { return next_version_; }
  void set_next_version(uint64_t version) { next_version_ = version; }

  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  const std::string& generator() const { return generator_; }
  void Clear();

 private:
  void Drop(Entry* entry);

  MemoryMeter* const meter_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::string generator_;
  uint64_t next_version_ = 1;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_SAVED_ARRAYS_H_
