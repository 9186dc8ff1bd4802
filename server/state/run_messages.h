// What is left of a session's runs, in a snapshot.
#ifndef CHX_SERVER_STATE_RUN_MESSAGES_H_
#define CHX_SERVER_STATE_RUN_MESSAGES_H_

#include "absl/status/status.h"
#include "server/session/session.h"
#include "server/state/snapshot.pb.h"

namespace chx::server {

// Without the session's lock.
void AddRuns(Session* session, state::Head* head);
absl::Status ReadRuns(const state::Head& head, Session* session);

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_RUN_MESSAGES_H_
