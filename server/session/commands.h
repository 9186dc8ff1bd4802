// What a session does with each kind of command: one overload of RunCommand per struct of namespace
// command, in the files *_commands.cc.
//
// A command never fails as a whole: its failure is an error value under its results, and in the
// context's output.
#ifndef CHX_SERVER_SESSION_COMMANDS_H_
#define CHX_SERVER_SESSION_COMMANDS_H_

#include <type_traits>
#include <vector>

#include "ops/op_def.h"
#include "proto/command.h"
#include "server/session/session_state.h"

namespace chx::server {

// operator_commands.cc
void RunCommand(const command::ApplyOp& c, CommandContext& context);
void RunCommand(const command::Release& c, CommandContext& context);
// The operator that the command names; null if there is none.
const OpDef* OpOf(const command::ApplyOp& c, const SessionState& state);

// As long as it exists, commands name operators by this daemon's ids, as those of programs and runs
// do, whatever the client's ids are.
class OwnOperators {
 public:
  explicit OwnOperators(SessionState* state) : state_(*state) { state_.op_ids.swap(client_ids_); }
  ~OwnOperators() { state_.op_ids.swap(client_ids_); }
  OwnOperators(const OwnOperators&) = delete;
  OwnOperators& operator=(const OwnOperators&) = delete;

 private:
  SessionState& state_;
  std::vector<uint16_t> client_ids_;
};

// value_commands.cc
void RunCommand(const command::Upload& c, CommandContext& context);
void RunCommand(const command::UploadFrom& c, CommandContext& context);
void RunCommand(const command::UploadPart& c, CommandContext& context);
void RunCommand(const command::Fetch& c, CommandContext& context);
void RunCommand(const command::FetchInto& c, CommandContext& context);
void RunCommand(const command::Barrier& c, CommandContext& context);

// share_commands.cc
void RunCommand(const command::ShareArray& c, CommandContext& context);
void RunCommand(const command::ShareCopy& c, CommandContext& context);
void RunCommand(const command::ShareNew& c, CommandContext& context);
void RunCommand(const command::ShareAlias& c, CommandContext& context);

// gradient_commands.cc
void RunCommand(const command::RequireGrad& c, CommandContext& context);
void RunCommand(const command::Backward& c, CommandContext& context);
void RunCommand(const command::Grad& c, CommandContext& context);
void RunCommand(const command::ReduceBackward& c, CommandContext& context);
void RunCommand(const command::SetGrad& c, CommandContext& context);
void RunCommand(const command::GetGrad& c, CommandContext& context);

// function_commands.cc
void RunCommand(const command::RecordFunction& c, CommandContext& context);
void RunCommand(const command::EnterFunction& c, CommandContext& context);
void RunCommand(const command::ResumePass& c, CommandContext& context);
void RunCommand(const command::AbandonPass& c, CommandContext& context);
// Runs a pass and tells the client where it has come to. `status` and `inherited`: how it began.
void AnswerPass(PendingPass pass, uint64_t number, uint64_t request_id, absl::Status status,
                RootErrorPtr inherited, CommandContext& context);
// Binds what Grad gives at the end of a pass; Backward has no results.
absl::Status FinishPass(Backprop& backprop, uint32_t location, absl::Span<const Handle> results,
                        CommandContext& context);

// graph_commands.cc
void RunCommand(const command::NewBackpropId& c, CommandContext& context);
void RunCommand(const command::ReleaseBackpropId& c, CommandContext& context);
void RunCommand(const command::Unchain& c, CommandContext& context);
void RunCommand(const command::QueryGraphs& c, CommandContext& context);
void RunCommand(const command::DumpGraph& c, CommandContext& context);

// operator_commands.cc: whether a session of the tenant may use the operator.
absl::Status CheckAllowed(const OpDef& op, const Tenant& tenant);

// group_commands.cc
void RunCommand(const command::JoinGroup& c, CommandContext& context);
void RunCommand(const command::LeaveGroup& c, CommandContext& context);
// For a collective that has failed before it met the other ranks, which would wait for it: meets
// them with its error.
void MeetWithout(const command::ApplyOp& c, const OpDef& op, CommandContext& context);
// Where the session does not even wait: it is out of step with the others.
void BreakGroupOf(const command::ApplyOp& c, SessionState& state);
void BreakGroupOf(const command::ReduceBackward& c, SessionState& state);
// The same for what may have had collectives of any group: a program, or a backward pass, which has
// none without such operators in a graph.
void BreakGroups(SessionState& state, absl::string_view why);
// If the program has collectives.
void BreakGroupsOf(Program* program, SessionState& state);
void BreakGroupsOfPass(SessionState& state);
template <typename C>
void BreakGroupsOfPass(const C& c, SessionState& state) {
  BreakGroupsOfPass(state);
  if constexpr (std::is_same_v<C, command::ReduceBackward>) BreakGroupOf(c, state);
}

// definition_commands.cc
void RunCommand(const command::DefineMode& c, CommandContext& context);
void RunCommand(const command::DefineLocation& c, CommandContext& context);
void RunCommand(const command::Configure& c, CommandContext& context);

// sharing_commands.cc
void RunCommand(const command::GrantAccess& c, CommandContext& context);
void RunCommand(const command::OpenShared& c, CommandContext& context);
void RunCommand(const command::Revoke& c, CommandContext& context);
void RunCommand(const command::Publish& c, CommandContext& context);
void RunCommand(const command::Lookup& c, CommandContext& context);
void RunCommand(const command::Unpublish& c, CommandContext& context);
void RunCommand(const command::ListNames& c, CommandContext& context);
void RunCommand(const command::PublishProgram& c, CommandContext& context);
void RunCommand(const command::OpenPrograms& c, CommandContext& context);
// Whether an array of that spec lies within `bytes` of memory. Kernels rely on alignment. Without
// overflow: a stride, and a sum of them, that passes is below the size. (share_commands.cc)
bool LiesWithin(const ArraySpec& spec, int64_t bytes);

// saved_commands.cc
void RunCommand(const command::SaveArrays& c, CommandContext& context);
void RunCommand(const command::QuerySaved& c, CommandContext& context);
void RunCommand(const command::LoadSaved& c, CommandContext& context);
void RunCommand(const command::ForgetSaved& c, CommandContext& context);
void RunCommand(const command::NoteGenerator& c, CommandContext& context);

// program_commands.cc
void RunCommand(const command::BeginProgram& c, CommandContext& context);
void RunCommand(const command::EndProgram& c, CommandContext& context);
void RunCommand(const command::RunProgram& c, CommandContext& context);
void RunCommand(const command::ReleaseProgram& c, CommandContext& context);
void RunCommand(const command::HoldArray& c, CommandContext& context);
void RunCommand(const command::ExplainProgram& c, CommandContext& context);
// program_runs.cc: what RunProgram does when it has been checked.
void RunTimes(const command::RunProgram& c, Program* program, CommandContext& context);
// Of a plan that has failed: what it would have written is not what the client takes it for.
void PoisonUnwritten(const std::vector<const Buffer*>& list, const RootErrorPtr& error,
                     HandleTable* handles);

// cancelled_commands.cc: what becomes of a command of a batch that is cancelled. Those that compute
// are not run; the others keep the books: handles, names and graphs stay as the client thinks they
// are, and nothing leaks.
void CancelCommand(const Command& command, CommandContext& context);

// described_commands.cc: the operator's name, or that of the command, for listings, traces and the
// log. It lives as long as the daemon.
const char* NameOf(const Command& command, const SessionState& state);
// What a command was that has run for so long. No values.
SessionOutput::Slow DescribeSlow(const Command& command, int64_t milliseconds, SessionState* state);

// Any kind. Makes room for the results first.
void RunCommand(const Command& command, CommandContext& context);

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_COMMANDS_H_
