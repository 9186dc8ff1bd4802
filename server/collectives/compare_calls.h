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
// `calls`: one for each rank.
absl::Status CompareCalls(absl::string_view group, absl::Span<const CollectiveCall* const> calls);

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_COMPARE_CALLS_H_
