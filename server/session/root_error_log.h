// Makes the root errors of a session, and keeps those that no client has seen.
#ifndef CHX_SERVER_SESSION_ROOT_ERROR_LOG_H_
#define CHX_SERVER_SESSION_ROOT_ERROR_LOG_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ops/error.h"
#include "server/engine/memory_budget.h"
#include "server/observability/counters.h"
#include "server/session/definitions.h"
#include "server/session/handle_table.h"
#include "server/session/session_types.h"

namespace chx::server {

// The status with "[op] " before its message.
absl::Status Annotate(const std::string& op, const absl::Status& status);

// Belongs to a session and is used under its lock; the pointers are the session's.
class RootErrorLog {
 public:
  using Counts = std::array<Counter, kNumErrorKinds>;

  RootErrorLog(MemoryAccountPtr account, const Definitions* definitions, HandleTable* handles,
               Counts* counts)
      : account_(std::move(account)),
        definitions_(definitions),
        handles_(handles),
        counts_(counts) {}

  // The table's LostError if there is no memory for another. Long texts are shortened.
  RootErrorPtr NewError(uint32_t location, absl::Status status, std::string op,
                        std::string inputs = "");
  void AddUnread(Handle handle, const RootErrorPtr& error);
  // Errors that no read has shown, oldest first.
  std::vector<SessionOutput::Error> ListUnread(size_t max) const;
  const std::vector<SessionOutput::Error>& unread() const { return unread_; }
  int64_t count() const { return count_; }
  // Forgets the unread ones: whoever could read them has gone.
  void Clear() { unread_.clear(); }

 private:
  const MemoryAccountPtr account_;
  const Definitions* const definitions_;
  HandleTable* const handles_;
  Counts* const counts_;  // by kind
  int64_t count_ = 0;
  std::vector<SessionOutput::Error> unread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_ROOT_ERROR_LOG_H_
