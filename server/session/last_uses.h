// Which command of a window is the last to use an array that the window releases.
#ifndef CHX_SERVER_SESSION_LAST_USES_H_
#define CHX_SERVER_SESSION_LAST_USES_H_

#include <cstddef>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "proto/command.h"

namespace chx::server {

// An operator may write its result over an input whose last use it is. Belongs to a session and is
// used under its lock.
class LastUses {
 public:
  void Find(absl::Span<const Command> window);
  bool IsLast(Handle handle, size_t position) const {
    if (positions_.empty()) return false;
    auto it = positions_.find(handle);
    return it != positions_.end() && it->second == position;
  }

 private:
  absl::flat_hash_map<Handle, size_t> positions_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_LAST_USES_H_
