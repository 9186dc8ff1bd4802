#include "server/rpc/audit.h"

#include <chrono>
#include <string>

#include "server/log/log.h"
#include "server/rpc/admission.h"

namespace chx::server {

absl::Status Audited(const PeerInfo& peer, absl::string_view action, uint64_t session,
                     absl::Status outcome) {
  // Who calls without end writes a hundred lines, and then ten each second.
  static auto* const limit = new LogLimit(100, std::chrono::milliseconds(100));
  // The admin process does not tell which of those who may connect has called.
  const std::string who = peer.admin ? "gRPC" : PeerName(peer);
  Log(limit, LogLevel::kInfo, "administrator",
      {{"action", action},
       {"session", session},
       {"peer", who},
       {"outcome", outcome.ok() ? "done" : outcome.message()}});
  return outcome;
}

}  // namespace chx::server
