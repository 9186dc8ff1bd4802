// What a client has defined, modes and programs, as messages of a snapshot, and back.
#ifndef CHX_SERVER_STATE_PROGRAM_MESSAGES_H_
#define CHX_SERVER_STATE_PROGRAM_MESSAGES_H_

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/session/programs.h"
#include "server/state/snapshot.pb.h"

namespace chx::server {

void ToMessage(uint16_t number, const RecordMode& mode, state::Mode* message);
absl::StatusOr<command::DefineMode> DefinitionFrom(const state::Mode& message);

// `numbers`: ascending; runs share the client's programs, under numbers of their own.
void ToMessage(absl::Span<const uint64_t> numbers, const Program& program, state::Program* message);
// Without its plans. The arrays that it holds are bound before; *owned: those of all programs.
// `op_ids`: this daemon's by those of the message, as SessionState::op_ids.
absl::StatusOr<std::unique_ptr<Program>> ProgramFrom(const state::Program& message,
                                                     const HandleTable& handles,
                                                     absl::Span<const uint16_t> op_ids,
                                                     absl::flat_hash_set<Handle>* owned);

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_PROGRAM_MESSAGES_H_
