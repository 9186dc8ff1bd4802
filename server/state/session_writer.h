// Writes a session to a snapshot.
#ifndef CHX_SERVER_STATE_SESSION_WRITER_H_
#define CHX_SERVER_STATE_SESSION_WRITER_H_

#include "absl/status/status.h"
#include "server/session/session_manager.h"
#include "server/state/snapshot.pb.h"
#include "server/state/snapshot_file.h"

namespace chx::server {

// Everything that a client of the session can tell, but for backward passes that wait for it.
// `head` has what only the record knows; what the session knows is added. The session's lock is
// held: it is as between two commands. Arrays are written from where they are.
absl::Status WriteSession(SessionState* session, state::Head head, PartWriter* file);

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_SESSION_WRITER_H_
