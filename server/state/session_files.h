// Which files a session's snapshots are in: the newest, and some of those before it.
//
// The newest is KEY.session; one before it is KEY.NUMBER.older, with a larger number the newer it
// is. A session has ended if it has no KEY.session.
#ifndef CHX_SERVER_STATE_SESSION_FILES_H_
#define CHX_SERVER_STATE_SESSION_FILES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/state/snapshot_file.h"

namespace chx::server {

// Of all sessions of a folder. Thread-safe for different sessions.
class SessionFiles {
 public:
  // `keep`: how many of each session, 1 at least. `folder` outlives it.
  SessionFiles(StateFolder* folder, int keep)
      : folder_(*folder), keep_(static_cast<size_t>(keep)) {}

  // Reads the folder, once: the keys of its sessions, in order. Removes what is left of those that
  // have ended.
  absl::StatusOr<std::vector<std::string>> Load();
  // A session's files, the newest first.
  std::vector<std::string> Of(const std::string& key);
  // A new snapshot, as StateFolder::Replace. One that is too old is removed when the new one is on
  // the disk.
  absl::Status Write(const std::string& key, absl::FunctionRef<absl::Status(int fd)> write);
  // From now on the session is what that file of it says, also for later daemons: it replaces the
  // newest, and those between go.
  absl::Status ReturnTo(const std::string& key, const std::string& name);
  void Remove(const std::string& key);

 private:
  // Before the newest is replaced: gives it its other name.
  void KeepFormer(const std::string& key);
  // Of those before the newest.
  void RemoveAllBut(size_t count, const std::string& key);

  StateFolder& folder_;
  const size_t keep_;
  Mutex mutex_;
  // Numbers of those before the newest, oldest first, by keys; of none there is no entry.
  std::map<std::string, std::deque<uint64_t>> older_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_SESSION_FILES_H_
