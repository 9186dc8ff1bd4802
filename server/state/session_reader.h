// Reads a session from a snapshot.
#ifndef CHX_SERVER_STATE_SESSION_READER_H_
#define CHX_SERVER_STATE_SESSION_READER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/session/session_manager.h"
#include "server/state/snapshot.pb.h"
#include "server/state/snapshot_file.h"

namespace chx::server {

// The first part. kDataLoss: the file is damaged, or no snapshot.
absl::StatusOr<state::Head> ReadHead(PartReader* file);

// The rest, into a new session, which is of no use after an error. kFailedPrecondition: the daemon
// lacks a device that the session uses. Memory is charged to the session's account first, so a file
// makes the daemon take no more than a client could.
absl::Status ReadSession(const state::Head& head, PartReader* file, SessionState* session);

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_SESSION_READER_H_
