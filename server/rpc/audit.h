// The log of what administrators do.
#ifndef CHX_SERVER_RPC_AUDIT_H_
#define CHX_SERVER_RPC_AUDIT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/rpc/peer_info.h"

namespace chx::server {

// Tells the log who has done what to which session (0: to none), and how it ended; returns the
// outcome. For calls that change something for others.
absl::Status Audited(const PeerInfo& peer, absl::string_view action, uint64_t session,
                     absl::Status outcome);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_AUDIT_H_
