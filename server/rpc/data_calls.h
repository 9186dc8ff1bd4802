// Calls about files of the operator's (--data-root): docs/protocol.md.
#ifndef CHX_SERVER_RPC_DATA_CALLS_H_
#define CHX_SERVER_RPC_DATA_CALLS_H_

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "server/data/data_root.h"
#include "server/session/session_manager.h"

namespace chx::server {

// Thread-safe.
class DataCallService {
 public:
  // Both outlive it. `root`: null where there are no files.
  DataCallService(SessionManager* manager, const DataRoot* root) : manager_(manager), root_(root) {}

  static bool Is(const v1::Call& call);
  // Of a call whose session is the caller's.
  absl::Status Answer(const v1::Call& call, v1::Reply* reply);

 private:
  absl::StatusOr<SessionRecordPtr> FindSession(const std::string& id);
  absl::Status Describe(const v1::DescribeDataRequest& request, v1::DescribeDataReply* reply);
  absl::Status Read(const v1::ReadDataRequest& request);

  SessionManager* const manager_;
  const DataRoot* const root_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_DATA_CALLS_H_
