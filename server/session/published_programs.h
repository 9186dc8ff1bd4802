// Programs that a session publishes, and those of others that it has opened.
//
// Published are a program's commands and the arrays that it captures, which stay where they are.
// Whoever opens it has a program of its own that runs in its session: with its quota, its turns and
// its limits. So there is one way to run programs.
#ifndef CHX_SERVER_SESSION_PUBLISHED_PROGRAMS_H_
#define CHX_SERVER_SESSION_PUBLISHED_PROGRAMS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/session/session_state.h"
#include "server/sharing/names.h"

namespace chx::server {

// Adds the programs of these numbers, and what they capture, whose memory moves to where sessions
// share it. An error if others could not run one of them without a change to this session.
absl::Status FillPrograms(absl::Span<const int64_t> numbers, SessionState* state,
                          NewPublication* publication, RootErrorPtr* inherited);

// Makes them programs of the session, under these numbers.
absl::Status AddPrograms(const OpenedPrograms& opened, absl::Span<const int64_t> numbers,
                         SessionState* state);

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_PUBLISHED_PROGRAMS_H_
