#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/registry.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

// Operands of one command from which on what it takes while it runs is charged, and what that is
// for each.
constexpr size_t kManyOperands = 256;
constexpr int64_t kOperandBytes = 1024;
constexpr size_t kMaxDescribedInputs = 16;

using Inputs = absl::InlinedVector<VariableOperand, 4>;

std::string Describe(const VariableOperand& input) {
  if (input.is_array()) return input.array()->array.spec.ToString();
  return input.is_scalar() ? input.scalar().ToString() : "None";
}

std::string DescribeAll(absl::Span<const VariableOperand> inputs) {
  std::string text = absl::StrJoin(inputs.subspan(0, kMaxDescribedInputs), ", ",
                                   [](std::string* out, const VariableOperand& input) {
                                     absl::StrAppend(out, Describe(input));
                                   });
  if (inputs.size() > kMaxDescribedInputs) {
    absl::StrAppend(&text, ", ... (", inputs.size(), " inputs)");
  }
  return text;
}

absl::Status FindInputs(const command::ApplyOp& c, CommandContext& context, Inputs* inputs,
                        RootErrorPtr* inherited) {
  for (const HandleOperand& operand : c.inputs) {
    if (operand.is_array()) {
      const Handle handle = operand.array();
      CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry,
                           context.state.handles.Use(handle, inherited));
      inputs->emplace_back(&entry->variable);
      inputs->back().last_use = context.state.last_uses.IsLast(handle, context.position);
    } else if (operand.is_scalar()) {
      inputs->emplace_back(operand.scalar());
    } else {
      inputs->emplace_back();
    }
  }
  return absl::OkStatus();
}

// What other sessions have, too, stays as it is for the length of the command, however many kernels
// that runs.
absl::Status HoldInputs(const VariableCall& call, SharedUse* use, Executor& executor) {
  if (call.op.kind == OpKind::kCollective) return absl::OkStatus();  // it waits for other sessions
  bool any = false;
  for (const VariableOperand& input : call.inputs) {
    any = any || (input.is_array() && input.array()->array.buffer->lease());
  }
  if (!any) return absl::OkStatus();
  absl::InlinedVector<const Array*, 8> arrays;
  for (const VariableOperand& input : call.inputs) {
    arrays.push_back(input.is_array() ? &input.array()->array : nullptr);
  }
  return executor.Hold(call.op, arrays, use);
}

absl::Status Apply(const command::ApplyOp& c, const VariableCall& call, const RecordMode& mode,
                   SessionState& state) {
  SharedUse use;
  CHX_RETURN_IF_ERROR(HoldInputs(call, &use, state.executor));
  Runtime runtime = state.runtime();
  ApplyOutputs outputs;
  CHX_RETURN_IF_ERROR(server::Apply(runtime, call, mode, &outputs));
  if (outputs.size() != c.results.size()) {
    return TypeError("[", call.op.name, "] makes ", outputs.size(), " outputs, got handles for ",
                     c.results.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    state.handles.Bind(c.results[i], std::move(outputs[i]));
  }
  return absl::OkStatus();
}

// An input has an error: so have the results, and what would have been written.
void InheritApply(const command::ApplyOp& c, const OpDef& op, const RootErrorPtr& inherited,
                  CommandContext& context) {
  if (op.has_lists() && op.in_place) {
    // One bad gradient does not cost all parameters their values: nothing is written.
    context.output.errors.push_back({0, inherited});
  } else if (op.in_place && !c.inputs.empty()) {
    context.state.handles.Poison(c.inputs[0].array(), inherited);
  }
  context.Inherit(c.results, inherited);
}

void RunApply(const command::ApplyOp& c, const OpDef& op, CommandContext& context) {
  SessionState& state = context.state;
  absl::Status allowed = CheckAllowed(op, *state.limits.tenant);
  if (!allowed.ok()) {
    context.Fail(c, std::move(allowed), op.name);
    return;
  }
  MemoryCharge charge;
  if (c.inputs.size() > kManyOperands) {
    absl::StatusOr<MemoryCharge> charged =
        MemoryCharge::Of(state.account(), static_cast<int64_t>(c.inputs.size()) * kOperandBytes);
    if (!charged.ok()) {
      context.Fail(c, Annotate(op.name, charged.status()), op.name);
      return;
    }
    charge = *std::move(charged);
  }
  Inputs inputs;
  RootErrorPtr inherited;
  absl::Status status = FindInputs(c, context, &inputs, &inherited);
  if (status.ok()) status = state.handles.CheckNew(c.results);
  if (!status.ok()) {
    context.Fail(c, Annotate(op.name, status), op.name);
    return;
  }
  if (inherited != nullptr) return InheritApply(c, op, inherited, context);
  const RecordMode* mode = state.definitions.FindMode(c.mode);
  if (mode == nullptr) {
    context.Fail(c, ValueError("[", op.name, "] expects a defined mode, got ", c.mode), op.name);
    return;
  }
  status = Apply(c, {op, inputs, c.attrs, c.device}, *mode, state);
  if (status.ok()) return;
  const RootErrorPtr error = context.Fail(c, std::move(status), op.name, DescribeAll(inputs));
  if (!state.stop.noticed()) return;
  // What the operator had begun to write when it was stopped has no value any more.
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].is_array() && op.IsWritten(i, c.inputs.size())) {
      state.handles.Poison(c.inputs[i].array(), error);
    }
  }
}

}  // namespace

absl::Status CheckAllowed(const OpDef& op, const Tenant& tenant) {
  if (tenant.denied_operators.count(op.name) == 0) return absl::OkStatus();
  return MakeError(ErrorKind::kContext,
                   absl::StrCat("[", op.name, "] expects a tenant that may use it, which '",
                                tenant.name, "' may not: ask the daemon's operator"));
}

const OpDef* OpOf(const command::ApplyOp& c, const SessionState& state) {
  const OpRegistry& registry = OpRegistry::Global();
  int id = c.op;
  if (!state.op_ids.empty()) id = c.op < state.op_ids.size() ? state.op_ids[c.op] : 0;
  const bool known = id != 0 && id <= registry.size();
  return known ? &registry.at(static_cast<OpId>(id - 1)) : nullptr;
}

void RunCommand(const command::ApplyOp& c, CommandContext& context) {
  SessionState& state = context.state;
  const OpDef* const named = OpOf(c, state);
  if (named == nullptr) {
    context.Fail(c, TypeError("expects an operator id agreed at Open, got ", c.op), "");
    return;
  }
  const OpDef& op = *named;
  const uint64_t met = state.groups == nullptr ? 0 : state.groups->met();
  RunApply(c, op, context);
  if (op.kind == OpKind::kCollective && state.groups != nullptr && state.groups->met() == met) {
    MeetWithout(c, op, context);
  }
}

void RunCommand(const command::Release& c, CommandContext& context) {
  size_t unknown = 0;
  Handle first = 0;
  for (Handle handle : c.handles) {
    if (!context.state.handles.Release(handle) && unknown++ == 0) first = handle;
  }
  if (unknown == 0 || context.state.handles.lost()) return;
  context.Fail(c,
               ValueError("[release] expects a handle in use, got ", first,
                          unknown == 1 ? "" : absl::StrCat(" and ", unknown - 1, " more")),
               "release");
}

}  // namespace chx::server
