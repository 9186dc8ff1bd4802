// What is wrong with the calls that the ranks of a group have come to a collective with.
#ifndef CHX_SERVER_COLLECTIVES_COMPARE_CALLS_H_
#define CHX_SERVER_COLLECTIVES_COMPARE_CALLS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/collectives.h"

namespace chx::server {

// An error that says which ranks, what they call and where, unless all call the same operator, on
// as many arrays of the same shapes and dtypes, with the same attributes but for the group.
// `calls`: one for each rank; null for ranks that are elsewhere.
absl::Status CompareCalls(absl::string_view group, absl::Span<const CollectiveCall* const> calls);

// What has to be the same of calls that go together.
std::string KeyOfCall(const CollectiveCall& call);
// "all_reduce(float32(2,), reduction=sum) at rank 0 (train.py:10)".
std::string DescribeCall(int rank, const CollectiveCall& call);
// Of the op that this rank calls, with descriptions of calls that do not go together.
absl::Status DifferentCallsError(absl::string_view op, absl::string_view group,
                                 absl::Span<const std::string> calls);

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_COMPARE_CALLS_H_
