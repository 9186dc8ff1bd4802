// Runs of all sessions, for administrators and the status page.
#ifndef CHX_SERVER_RPC_RUN_LISTING_H_
#define CHX_SERVER_RPC_RUN_LISTING_H_

#include <string>

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/runs/run.h"
#include "server/session/session_manager.h"

namespace chx::server {

void FillRunInfo(const Run& run, const RunView& view, v1::RunInfo* info);

// None of these waits for a session.

// Of sessions that `who` may administer.
void ListAllRuns(SessionManager* manager, const Tenant& who, v1::ListAllRunsReply* reply);
// Some runs, with their curves.
void FillRuns(SessionManager* manager, v1::NodeStatusReply* reply);
// A session of others is NOT_FOUND; an error of kValue for a run that there is not, or has ended.
absl::Status OrderRun(SessionManager* manager, const Tenant& who,
                      const v1::OrderRunRequest& request);
// What it asks for, in the log.
std::string DescribeOrder(const v1::OrderRunRequest& request);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_RUN_LISTING_H_
