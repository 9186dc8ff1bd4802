// Functions whose gradients the client computes, and the backward passes that wait for these.
#include <algorithm>
#include <utility>

#include "ops/error.h"
#include "proto/graph_state.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

absl::StatusOr<std::vector<int>> CheckIndexes(absl::Span<const int64_t> indexes, size_t limit) {
  std::vector<int> checked;
  for (int64_t index : indexes) {
    if (index < 0 || index >= static_cast<int64_t>(limit)) {
      return ValueError("[function] expects to retain what is there, got index ", index, " of ",
                        limit);
    }
    checked.push_back(static_cast<int>(index));
  }
  return checked;
}

GraphState GraphsOf(const Variable& variable) {
  GraphState state;
  for (const Ref<ArrayNode>& node : variable.nodes) state.graphs.push_back(node->id);
  return state;
}

void Describe(const std::vector<Variable>& variables, std::vector<bool>* present,
              PassState* state) {
  for (const Variable& variable : variables) {
    present->push_back(variable.array.valid());
    if (variable.array.valid()) state->graphs.push_back(GraphsOf(variable));
  }
}

PassState PassStateOf(const FunctionCall& call) {
  PassState state;
  state.function = call.function;
  state.targets.assign(call.targets.begin(), call.targets.end());
  Describe(call.output_grads, &state.output_grads, &state);
  Describe(call.retained_inputs, &state.retained_inputs, &state);
  Describe(call.retained_outputs, &state.retained_outputs, &state);
  return state;
}

// Lets the pass go on until it waits again or is done.
absl::StatusOr<PassState> Advance(const PendingPass& pass, CommandContext& context) {
  BackwardPass& backward = pass.backprop->pass();
  CHX_RETURN_IF_ERROR(backward.Run());
  if (backward.waiting() != nullptr) return PassStateOf(*backward.waiting());
  CHX_RETURN_IF_ERROR(FinishPass(*pass.backprop, pass.location, pass.results, context));
  return PassState();
}

// Advances the pass and encodes where it is. *waits: it waits for the client.
absl::Status FillPassState(const PendingPass& pass, uint64_t number, CommandContext& context,
                           SessionOutput::Value* value, bool* waits) {
  CHX_ASSIGN_OR_RETURN(const PassState state, Advance(pass, context));
  value->data = EncodePassState(state);
  value->dtype = Dtype::kUint8;
  value->shape = Shape({static_cast<int64_t>(value->data.size())});
  if (value->data.size() > static_cast<size_t>(context.state.limits.max_inline_bytes)) {
    return ValueError("[backward] expects functions of fewer arrays");
  }
  if (state.function != 0) CHX_RETURN_IF_ERROR(context.state.passes.CheckNew(number));
  CHX_RETURN_IF_ERROR(context.ChargeValue(static_cast<int64_t>(value->data.size()), value));
  *waits = state.function != 0;
  return absl::OkStatus();
}

absl::Status CheckDistinct(absl::Span<const Handle> handles) {
  for (auto it = handles.begin(); it != handles.end(); ++it) {
    if (*it != 0 && std::find(handles.begin(), it, *it) != it) {
      return ValueError("[function] expects an array for each output, got ", *it, " twice");
    }
  }
  return absl::OkStatus();
}

absl::Status Record(const command::RecordFunction& c, SessionState& state) {
  const size_t arrays =
      c.inputs.size() + c.outputs.size() + c.retained_inputs.size() + c.retained_outputs.size();
  if (c.function == 0 || arrays > command::RecordFunction::kMaxArrays) {
    return ValueError("[function] expects a number and at most ",
                      command::RecordFunction::kMaxArrays, " arrays");
  }
  CHX_RETURN_IF_ERROR(CheckDistinct(c.outputs));
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> variables,
                       state.handles.UseAll(c.inputs, &inherited, /*optional=*/true));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> outputs,
                       state.handles.UseAll(c.outputs, &inherited, /*optional=*/true));
  ClientFunction function;
  function.number = c.function;
  CHX_ASSIGN_OR_RETURN(function.retained_inputs, CheckIndexes(c.retained_inputs, c.inputs.size()));
  CHX_ASSIGN_OR_RETURN(function.retained_outputs,
                       CheckIndexes(c.retained_outputs, c.outputs.size()));
  const RecordMode* mode = state.definitions.FindMode(c.mode);
  if (mode == nullptr) return ValueError("[function] expects a defined mode");
  if (inherited != nullptr) {
    for (Handle handle : c.outputs) state.handles.Poison(handle, inherited);
    return absl::OkStatus();
  }
  const std::vector<VariableOperand> inputs(variables.begin(), variables.end());
  std::vector<size_t> nodes_before;
  nodes_before.reserve(outputs.size());
  int64_t lists_before = 0;
  for (const Variable* output : outputs) {
    nodes_before.push_back(output == nullptr ? 0 : output->nodes.size());
    if (output != nullptr) lists_before += output->HeapBytes();
  }
  Runtime runtime = state.runtime();
  CHX_RETURN_IF_ERROR(RecordFunction(runtime, std::move(function), inputs, outputs, *mode));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] == nullptr) continue;
    state.meter.Charge(outputs[i]->HeapBytes());
    state.handles.NoteNewNodes(c.outputs[i], *outputs[i], nodes_before[i]);
  }
  state.meter.Release(lists_before);
  return absl::OkStatus();
}

absl::Status Enter(const command::EnterFunction& c, SessionState& state) {
  CHX_ASSIGN_OR_RETURN(PendingPass * pass, state.passes.Find(c.pass));
  CHX_RETURN_IF_ERROR(state.passes.CheckInTime(*pass));
  const FunctionCall& call = *pass->backprop->pass().waiting();
  std::vector<std::pair<Handle, const Variable*>> bound;
  std::vector<Handle> handles;
  size_t next = 0;
  for (const auto* variables :
       {&call.output_grads, &call.retained_inputs, &call.retained_outputs}) {
    for (const Variable& variable : *variables) {
      const Handle handle = next < c.results.size() ? c.results[next] : 0;
      ++next;
      if (handle == 0 || !variable.array.valid()) continue;
      bound.emplace_back(handle, &variable);
      handles.push_back(handle);
    }
  }
  if (next != c.results.size()) {
    return ValueError("[function] expects ", next, " handles, got ", c.results.size());
  }
  CHX_RETURN_IF_ERROR(state.handles.CheckNew(handles));
  for (const auto& [handle, variable] : bound) state.handles.Bind(handle, *variable);
  return absl::OkStatus();
}

// Gives the pass, if there is one, the gradients that it waits for.
absl::Status Resume(const command::ResumePass& c, SessionState& state, PendingPass* pass,
                    RootErrorPtr* inherited) {
  CHX_ASSIGN_OR_RETURN(*pass, state.passes.Take(c.pass));
  CHX_RETURN_IF_ERROR(state.passes.CheckInTime(*pass));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> grads,
                       state.handles.UseAll(c.grads, inherited, /*optional=*/true));
  if (*inherited != nullptr) return absl::OkStatus();
  return pass->backprop->pass().Answer(std::vector<const Variable*>(grads.begin(), grads.end()));
}

}  // namespace

void AnswerPass(PendingPass pass, uint64_t number, uint64_t request_id, absl::Status status,
                RootErrorPtr inherited, CommandContext& context) {
  const uint32_t location = pass.location;
  SessionOutput::Value value;
  value.request_id = request_id;
  value.error = std::move(inherited);
  bool waits = false;
  if (status.ok() && value.error == nullptr) {
    status = FillPassState(pass, number, context, &value, &waits);
  }
  if (!status.ok()) {
    value.error = context.state.errors.NewError(location, std::move(status), "backward");
  }
  if (value.error != nullptr) {
    BreakGroupsOfPass(context.state);
    context.Inherit(pass.results, value.error);
  } else if (waits) {
    context.state.passes.Add(number, std::move(pass));
  }
  context.SendAnswer(location, absl::OkStatus(), "backward", std::move(value));
}

void RunCommand(const command::RecordFunction& c, CommandContext& context) {
  context.FailUnlessOk(c, Record(c, context.state), "");
}

void RunCommand(const command::EnterFunction& c, CommandContext& context) {
  context.FailUnlessOk(c, Enter(c, context.state), "");
}

void RunCommand(const command::ResumePass& c, CommandContext& context) {
  PendingPass pass;
  RootErrorPtr inherited;
  absl::Status status = Resume(c, context.state, &pass, &inherited);
  AnswerPass(std::move(pass), c.pass, c.request_id, std::move(status), std::move(inherited),
             context);
}

void RunCommand(const command::AbandonPass& c, CommandContext& context) {
  SessionState& state = context.state;
  const absl::StatusOr<PendingPass> pass = state.passes.Take(c.pass);
  if (!pass.ok()) return;  // over: a client that was interrupted can't know
  // The client knows why.
  const RootErrorPtr error = state.errors.NewError(
      pass->location, ChainerxError("[grad] the client's function failed"), "grad");
  error->read = true;
  context.Inherit(pass->results, error);
}

}  // namespace chx::server
