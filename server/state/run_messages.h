// A session's runs in a snapshot: what has happened, and where those that go on are.
#ifndef CHX_SERVER_STATE_RUN_MESSAGES_H_
#define CHX_SERVER_STATE_RUN_MESSAGES_H_

#include "absl/status/status.h"
#include "server/runs/run.h"
#include "server/session/session.h"
#include "server/state/snapshot.pb.h"

namespace chx::server {

void ToMessage(const RunRecord& record, state::Run* message);
// As it says; Runs::Restore checks it.
RunRecord RecordFrom(const state::Run& message);

// Under the session's lock: of the step that its arrays are of.
void AddRuns(Session* session, state::Head* head);
// After all else of the session, without its lock. As Runs::Restore.
absl::Status ReadRuns(const state::Head& head, Session* session);

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_RUN_MESSAGES_H_
