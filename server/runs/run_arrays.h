// What runs read of their session's arrays.
#ifndef CHX_SERVER_RUNS_RUN_ARRAYS_H_
#define CHX_SERVER_RUNS_RUN_ARRAYS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/session/session.h"

namespace chx::server {

absl::StatusOr<Array> ArrayOf(Handle handle, SessionState* state);
// Binds a handle of a run's.
absl::StatusOr<Handle> Keep(Array array, SessionState* state);
// The number that is one element of an array.
absl::StatusOr<double> ElementOf(Dtype dtype, absl::string_view data);
// The same of an array that is to have no dimensions.
absl::StatusOr<double> MetricOf(Dtype dtype, const Shape& shape, absl::string_view data);

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUN_ARRAYS_H_
