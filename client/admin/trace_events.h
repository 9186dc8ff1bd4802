// Traces as Chrome's JSON, which Perfetto and chrome://tracing open.
#ifndef CHX_CLIENT_ADMIN_TRACE_EVENTS_H_
#define CHX_CLIENT_ADMIN_TRACE_EVENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "client/admin/json.h"
#include "proto/chxd.pb.h"

namespace chx {

// The daemon is process 1. A session is a thread with the session's number; a device has a thread,
// and further ones where several sessions compute on it at a time. Times are microseconds since
// "start_unix_ns" in "otherData".
Json TraceEvents(const std::vector<v1::ReadTraceReply>& parts);

// Adds a client's trace (client/trace.h) as a process of its own, and an arrow from each batch that
// it has sent to where the daemon has carried it out. INVALID_ARGUMENT: one of the two is no such
// file.
absl::Status MergeClientTrace(const Json& client, Json* trace);

}  // namespace chx

#endif  // CHX_CLIENT_ADMIN_TRACE_EVENTS_H_
