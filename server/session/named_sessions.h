// Which sessions have names, what has become of those that another client has taken up, and which
// are on disk only.
#ifndef CHX_SERVER_SESSION_NAMED_SESSIONS_H_
#define CHX_SERVER_SESSION_NAMED_SESSIONS_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chx::server {

// A tenant's name and, in its namespace, a session's.
using SessionName = std::pair<std::string, std::string>;

// OK for what may be a session's name.
absl::Status CheckSessionName(absl::string_view name);

// What the key of each session of that name begins with: 16 hexadecimal digits, in all versions. It
// tells whose a file is that cannot be read.
std::string KeyPrefix(const SessionName& name);

// The manager's, under its lock. Sessions are known by their ids.
class NamedSessions {
 public:
  // Empty: there is none.
  std::string Find(const SessionName& name) const;
  void Set(const SessionName& name, const std::string& id) { ids_[name] = id; }
  // Unless another session has the name by now.
  void Erase(const SessionName& name, const std::string& id);

  // Restores a session, or says why it still is on disk. Called without locks, by any thread.
  using Restorer = std::function<absl::Status()>;
  // The session of that id is on disk. `name`: with its tenant; the name itself may be empty.
  void Keep(const std::string& id, SessionName name, Restorer restore) {
    kept_[id] = {std::move(name), "", std::move(restore)};
  }
  // A session that cannot be read is on disk; `why`: for clients that ask for its name.
  void KeepUnreadable(const std::string& key, absl::Status why);
  void EndKeeping(const std::string& id) { kept_.erase(id); }
  // Null: none of the tenant is kept by that id, or that name.
  Restorer KeptById(const std::string& id, const std::string& tenant) const;
  Restorer KeptByName(const SessionName& name) const;

  // Remembers for a while why the session of that id is not there any more.
  void Retire(const std::string& id, absl::Status why);
  // OK if it is not known.
  absl::Status WhyGone(const std::string& id) const;

 private:
  std::map<SessionName, std::string> ids_;
  struct Kept {
    SessionName name;
    std::string key_prefix;  // of one whose name is not known
    Restorer restore;
  };
  std::map<std::string, Kept> kept_;  // by id, or by key if it is unreadable
  std::map<std::string, absl::Status> gone_;
  std::deque<std::string> order_;  // of gone_, oldest first
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_NAMED_SESSIONS_H_
