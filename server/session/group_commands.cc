// Process groups, and what a session that does not come to a collective owes to the other ranks.
#include <string>
#include <utility>

#include "ops/error.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

constexpr char kNoGroups[] = "expects a daemon whose sessions form process groups";

// Why the results have no values.
absl::Status FailureOf(const command::ApplyOp& c, const OpDef& op, CommandContext& context) {
  const HandleTable::Entry* const entry =
      c.results.empty() ? nullptr : context.state.handles.Find(c.results[0]);
  if (entry != nullptr && entry->error != nullptr) return entry->error->status;
  return ChainerxError("[", op.name, "] expects a valid call");
}

}  // namespace

void RunCommand(const command::JoinGroup& c, CommandContext& context) {
  context.Answer(c, "join_group", [&](SessionOutput::Value* /*value*/) -> absl::Status {
    GroupMember* const member = context.state.groups.get();
    if (member == nullptr) return ValueError("[join_group] ", kNoGroups);
    return member->Form(c.group, {std::string(c.name), std::string(c.secret), c.rank, c.size,
                                  std::string(c.address)});
  });
}

void RunCommand(const command::LeaveGroup& c, CommandContext& context) {
  GroupMember* const member = context.state.groups.get();
  context.FailUnlessOk(
      c, member == nullptr ? ValueError("[leave_group] ", kNoGroups) : member->Leave(c.group),
      "leave_group");
  context.state.delayed_reductions.erase(c.group);
  context.state.executor.ForgetGroup(c.group);
}

void MeetWithout(const command::ApplyOp& c, const OpDef& op, CommandContext& context) {
  GroupMember* const member = context.state.groups.get();
  if (member == nullptr || c.attrs.empty()) return;
  const auto no_kernels = [](absl::string_view, absl::Span<const KernelTensor>,
                             const KernelTensor&) { return absl::OkStatus(); };
  // What comes back is that very error, or that the group is broken.
  member->Run({op, c.attrs, {}, {}, FailureOf(c, op, context), c.location, {}}, no_kernels)
      .IgnoreError();
}

void BreakGroupOf(const command::ApplyOp& c, SessionState& state) {
  if (state.groups != nullptr) state.groups->Break(c.attrs, "has cancelled a collective");
}

void BreakGroupOf(const command::ReduceBackward& c, SessionState& state) {
  if (state.groups == nullptr) return;
  const AttrValue group(Ints{c.group, c.rank, c.size});
  state.groups->Break(absl::MakeConstSpan(&group, 1), "has not finished a backward pass");
}

void BreakGroupsOfPass(SessionState& state) {
  if (state.graph.collectives > 0) BreakGroups(state, "has not finished a backward pass");
}

void BreakGroupsOf(Program* program, SessionState& state) {
  if (HasCollectives(program)) BreakGroups(state, "has not run a program to its end");
}

void BreakGroups(SessionState& state, absl::string_view why) {
  if (state.groups != nullptr) state.groups->BreakAll(why);
}

}  // namespace chx::server
