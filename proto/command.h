// The commands that clients send in a session's stream: one struct per kind.
//
// Strings and data of decoded commands point into the batch they were read from. Handles, ids,
// shapes and devices are not checked here: that is the session's task. docs/protocol.md has the
// encoding, proto/command_codec.h the code.
#ifndef CHX_PROTO_COMMAND_H_
#define CHX_PROTO_COMMAND_H_

#include <cstddef>
#include <variant>

#include "proto/array_commands.h"    // IWYU pragma: export
#include "proto/command_fields.h"    // IWYU pragma: export
#include "proto/graph_commands.h"    // IWYU pragma: export
#include "proto/group_commands.h"    // IWYU pragma: export
#include "proto/name_commands.h"     // IWYU pragma: export
#include "proto/program_commands.h"  // IWYU pragma: export

namespace chx {

// The kind's number on the wire is its position here, from 1: append only.
using CommandVariant = std::variant<
    command::ApplyOp, command::Release, command::Upload, command::UploadFrom, command::Fetch,
    command::FetchInto, command::Barrier, command::ShareArray, command::ShareCopy,
    command::ShareNew, command::ShareAlias, command::RequireGrad, command::Backward, command::Grad,
    command::SetGrad, command::GetGrad, command::RecordFunction, command::EnterFunction,
    command::ResumePass, command::AbandonPass, command::NewBackpropId, command::ReleaseBackpropId,
    command::Unchain, command::QueryGraphs, command::DumpGraph, command::DefineMode,
    command::DefineLocation, command::Configure, command::GrantAccess, command::OpenShared,
    command::Revoke, command::Publish, command::Lookup, command::Unpublish, command::ListNames,
    command::SaveArrays, command::QuerySaved, command::LoadSaved, command::ForgetSaved,
    command::NoteGenerator, command::BeginProgram, command::EndProgram, command::RunProgram,
    command::ReleaseProgram, command::HoldArray, command::ExplainProgram, command::PublishProgram,
    command::OpenPrograms, command::UploadPart, command::JoinGroup, command::LeaveGroup,
    command::ReduceBackward>;
inline constexpr size_t kNumCommandKinds = std::variant_size_v<CommandVariant>;

// A command of any kind: a CommandVariant whose copies, moves and end are compiled once. In each
// file that has commands they took longer than all the rest of it.
class Command : public CommandVariant {
 public:
  using CommandVariant::CommandVariant;
  using CommandVariant::operator=;
  Command();
  Command(const Command& other);
  Command(Command&& other) noexcept;
  Command& operator=(const Command& other);
  Command& operator=(Command&& other) noexcept;
  ~Command();
};

}  // namespace chx

#endif  // CHX_PROTO_COMMAND_H_
