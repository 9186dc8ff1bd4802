// Which sessions have names, and what has become of those that another client has taken up.
#ifndef CHX_SERVER_SESSION_NAMED_SESSIONS_H_
#define CHX_SERVER_SESSION_NAMED_SESSIONS_H_

#include <deque>
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

// The manager's, under its lock. Sessions are known by their ids.
class NamedSessions {
 public:
  // Empty: there is none.
  std::string Find(const SessionName& name) const;
  void Set(const SessionName& name, const std::string& id) { ids_[name] = id; }
  // Unless another session has the name by now.
  void Erase(const SessionName& name, const std::string& id);

  // Not OK: nobody may make or take up a session of that name.
  absl::Status Refusal(const SessionName& name) const;
  void Refuse(const SessionName& name, absl::Status why) { refused_[name] = std::move(why); }

  // Remembers for a while why the session of that id is not there any more.
  void Retire(const std::string& id, absl::Status why);
  // OK if it is not known.
  absl::Status WhyGone(const std::string& id) const;

 private:
  std::map<SessionName, std::string> ids_;
  std::map<SessionName, absl::Status> refused_;
  std::map<std::string, absl::Status> gone_;
  std::deque<std::string> order_;  // of gone_, oldest first
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_NAMED_SESSIONS_H_
