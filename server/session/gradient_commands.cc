#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "ops/collective.h"
#include "ops/error.h"
#include "server/autograd/backward.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

using Started = absl::StatusOr<std::unique_ptr<Backprop>>;

absl::Status CheckGrad(absl::string_view op, const ArraySpec& grad, const ArraySpec& array) {
  if (grad.shape == array.shape && grad.dtype == array.dtype && grad.device == array.device) {
    return absl::OkStatus();
  }
  return GradientError("[", op, "] expects a gradient of ", array.ToString(),
                       " on the array's device, got ", grad.ToString());
}

// The results that the client wants can be bound.
absl::Status CheckResults(absl::Span<const Handle> results, const HandleTable& handles) {
  std::vector<Handle> wanted;
  for (Handle handle : results) {
    if (handle != 0) wanted.push_back(handle);
  }
  return handles.CheckNew(wanted);
}

template <typename C>
BackwardOptions OptionsOf(const C& c) {
  BackwardOptions options;
  options.id = c.backprop_id;
  options.loss_scale = c.loss_scale;
  if constexpr (!std::is_same_v<C, command::ReduceBackward>) {
    options.enable_double_backprop = c.enable_double_backprop;
  }
  if constexpr (std::is_same_v<C, command::Grad>) options.retain_grad = c.retain_grad;
  return options;
}

// Null with an inherited error: an array of the command has it.
Started Start(const command::Backward& c, SessionState& state, RootErrorPtr* inherited) {
  CHX_RETURN_IF_ERROR(state.scopes.Check(c.backprop_id));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> outputs,
                       state.handles.UseAll(c.outputs, inherited));
  const RecordMode* mode = state.definitions.FindMode(c.mode);
  if (mode == nullptr) return ValueError("[backward] expects a defined mode");
  if (*inherited != nullptr) return nullptr;
  Runtime runtime = state.runtime();
  return Backprop::Backward(runtime, outputs, OptionsOf(c), *mode);
}

Started Start(const command::Grad& c, SessionState& state, RootErrorPtr* inherited) {
  HandleTable& handles = state.handles;
  CHX_RETURN_IF_ERROR(state.scopes.Check(c.backprop_id));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> outputs, handles.UseAll(c.outputs, inherited));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> inputs, handles.UseAll(c.inputs, inherited));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> output_grads,
                       handles.UseAll(c.output_grads, inherited, /*optional=*/true));
  if (c.results.size() != inputs.size()) {
    return TypeError("[grad] expects a result handle for each of ", inputs.size(), " inputs, got ",
                     c.results.size());
  }
  CHX_RETURN_IF_ERROR(CheckResults(c.results, handles));
  const RecordMode* mode = state.definitions.FindMode(c.mode);
  if (mode == nullptr) return ValueError("[grad] expects a defined mode");
  if (*inherited != nullptr) return nullptr;
  Runtime runtime = state.runtime();
  return Backprop::Grad(runtime, outputs, inputs, output_grads, OptionsOf(c), *mode);
}

absl::StatusOr<ReductionOptions> ReductionOf(const command::ReduceBackward& c,
                                             SessionState& state) {
  ReductionOptions options;
  if (c.parameters.empty()) return ValueError("[backward] expects parameters to reduce");
  if (state.groups == nullptr || !state.groups->IsIn(c.group)) {
    return MakeError(
        ErrorKind::kContext,
        absl::StrCat("[backward] expects a process group of this session, got number ", c.group));
  }
  const OpDef& op = OpNamed("all_reduce");
  CHX_RETURN_IF_ERROR(CheckAllowed(op, *state.limits.tenant));
  const size_t choices = op.attrs[op.AttrIndex("reduction")].choices.size();
  if (c.reduction < 0 || c.reduction >= static_cast<int64_t>(choices)) {
    return ValueError("[backward] expects a reduction in [0, ", choices, "), got ", c.reduction);
  }
  const bool linear = c.reduction <= static_cast<int64_t>(GroupReduction::kMean);
  if (!linear && c.loss_scale != 1.0) {
    return ValueError("[backward] expects a loss scale of 1 for this reduction, got ",
                      c.loss_scale);
  }
  options.loss_scale = c.loss_scale;
  options.attrs.emplace_back(Ints{c.group, c.rank, c.size});
  options.attrs.emplace_back(c.reduction);
  if (c.dtype != -1) {
    const bool valid = c.dtype >= 0 && c.dtype < kNumDtypes;
    if (!valid || !IsFloat(static_cast<Dtype>(c.dtype))) {
      return DtypeError("[backward] expects a float dtype to reduce gradients in, got number ",
                        c.dtype);
    }
    options.dtype = static_cast<Dtype>(c.dtype);
  }
  if (c.bucket_bytes < 1) {
    return ValueError("[backward] expects buckets of at least 1 byte, got ", c.bucket_bytes);
  }
  options.bucket_bytes = c.bucket_bytes;
  options.reducer = c.reducer;
  options.delayed = c.delayed;
  options.may_call = c.request_id != 0;
  CHX_ASSIGN_OR_RETURN(
      options.charge,
      MemoryCharge::Of(state.account(), GradientReducer::BytesOf(c.parameters.size())));
  return options;
}

absl::StatusOr<std::vector<Ref<ArrayNode>>> NodesOf(const command::ReduceBackward& c,
                                                    absl::Span<Variable* const> parameters) {
  std::vector<Ref<ArrayNode>> nodes;
  absl::flat_hash_set<const ArrayNode*> seen;
  for (const Variable* variable : parameters) {
    ArrayNode* const node = variable->NodeOf(c.backprop_id);
    if (node == nullptr || !node->grad_required) {
      return GradientError("[backward] expects parameters that require a gradient, got ",
                           variable->array.spec.ToString(), " at place ", nodes.size());
    }
    if (!seen.insert(node).second) {
      return ValueError("[backward] expects different parameters, got one twice, at place ",
                        nodes.size());
    }
    nodes.emplace_back(node);
  }
  return nodes;
}

Started Start(const command::ReduceBackward& c, SessionState& state, RootErrorPtr* inherited) {
  CHX_RETURN_IF_ERROR(state.scopes.Check(c.backprop_id));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> outputs,
                       state.handles.UseAll(c.outputs, inherited));
  CHX_ASSIGN_OR_RETURN(const std::vector<Variable*> parameters,
                       state.handles.UseAll(c.parameters, inherited));
  const RecordMode* mode = state.definitions.FindMode(c.mode);
  if (mode == nullptr) return ValueError("[backward] expects a defined mode");
  if (*inherited != nullptr) return nullptr;
  CHX_ASSIGN_OR_RETURN(ReductionOptions options, ReductionOf(c, state));
  CHX_ASSIGN_OR_RETURN(std::vector<Ref<ArrayNode>> nodes, NodesOf(c, parameters));
  Runtime runtime = state.runtime();
  auto reducer = std::make_unique<GradientReducer>(runtime, std::move(nodes), std::move(options));
  return Backprop::Backward(runtime, outputs, OptionsOf(c), *mode, std::move(reducer));
}

// Why there are no gradients where all ranks were to get some. Those of other passes that fail are
// those of before.
template <typename C>
void NoteFailed(const C& c, RootErrorPtr error, SessionState& state) {
  if constexpr (std::is_same_v<C, command::ReduceBackward>) {
    if (state.groups != nullptr && state.groups->IsIn(c.group)) state.failed_pass = error;
  } else if constexpr (std::is_same_v<C, command::Backward>) {
    if (error == nullptr) state.failed_pass = nullptr;
  }
}

// A pass that may call functions of the client: it is answered each time that it stops.
template <typename C>
void StartAnswered(const C& c, Started started, RootErrorPtr inherited, CommandContext& context) {
  PendingPass pass;
  pass.location = c.location;
  absl::Status status = started.status();
  const absl::Span<const Handle> results = ResultsOf(c);
  absl::StatusOr<MemoryCharge> charge = MemoryCharge::Of(
      context.state.account(), static_cast<int64_t>(results.size() * sizeof(Handle)));
  if (charge.ok()) {
    pass.results.assign(results.begin(), results.end());
    pass.charge = *std::move(charge);
  } else if (status.ok()) {
    status = charge.status();
  }
  if (started.ok()) pass.backprop = *std::move(started);
  if (pass.backprop == nullptr) BreakGroupsOfPass(c, context.state);
  AnswerPass(std::move(pass), c.request_id, c.request_id, std::move(status), std::move(inherited),
             context);
}

template <typename C>
void RunPass(const C& c, CommandContext& context) {
  constexpr bool is_grad = std::is_same_v<C, command::Grad>;
  RootErrorPtr inherited;
  Started started = Start(c, context.state, &inherited);
  if (c.request_id != 0) {
    return StartAnswered(c, std::move(started), std::move(inherited), context);
  }
  absl::Status status = started.status();
  if (status.ok() && inherited == nullptr) {
    const std::unique_ptr<Backprop> backprop = *std::move(started);
    status = backprop->pass().Run();
    if (status.ok() && backprop->pass().waiting() != nullptr) {
      status = ChainerxError("[backward] comes to a function of the client, which does not wait");
    }
    if (status.ok()) status = FinishPass(*backprop, c.location, ResultsOf(c), context);
  }
  if (!status.ok() || inherited != nullptr) BreakGroupsOfPass(c, context.state);
  if (!status.ok()) {
    inherited = context.Fail(c, std::move(status), is_grad ? "grad" : "backward");
  } else if (inherited != nullptr && is_grad) {
    context.Inherit(ResultsOf(c), inherited);
  } else if (inherited != nullptr) {
    // Without a loss there are no gradients: whoever waits for one learns why.
    context.output.errors.push_back({0, inherited});
  }
  NoteFailed(c, std::move(inherited), context.state);
}

absl::Status Require(const command::RequireGrad& c, SessionState& state) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, state.handles.Use(c.handle, &inherited));
  if (inherited != nullptr) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(state.scopes.Check(c.backprop_id));
  Variable& variable = entry->variable;
  if (!IsFloat(variable.array.spec.dtype)) {
    return DtypeError("[require_grad] expects a float array, got ", variable.array.spec.ToString());
  }
  if (variable.NodeOf(c.backprop_id) == nullptr) {
    if (variable.nodes.size() >= kMaxGraphsOfArray) {
      return ChainerxError("[require_grad] expects an array that is in at most ",
                           kMaxGraphsOfArray - 1, " graphs");
    }
    const int64_t before = variable.HeapBytes();
    if (!state.meter.Reserve(ArrayNode::Bytes())) {
      return MemoryError("[require_grad] ", state.meter.Exhausted(ArrayNode::Bytes()).message());
    }
    variable.nodes.push_back(MakeRef<ArrayNode>(c.backprop_id, variable.array.spec, &state.graph));
    state.meter.Charge(variable.HeapBytes() - before);
    state.handles.NoteNewNodes(c.handle, variable, variable.nodes.size() - 1);
  }
  variable.NodeOf(c.backprop_id)->grad_required = true;
  return absl::OkStatus();
}

absl::Status Set(const command::SetGrad& c, HandleTable& handles) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, handles.Use(c.handle, &inherited));
  if (inherited != nullptr) return absl::OkStatus();
  ArrayNode* node = entry->variable.NodeOf(c.backprop_id);
  if (node == nullptr) {
    return ChainerxError("[set_grad] the array is not in the graph ", GraphName(c.backprop_id));
  }
  if (c.grad == 0) {
    node->grad = nullptr;
    return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * grad, handles.Use(c.grad, &inherited));
  if (inherited != nullptr) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(CheckGrad("set_grad", grad->variable.array.spec, node->spec));
  node->grad = std::make_unique<Variable>(grad->variable);
  node->grad_required = true;
  return absl::OkStatus();
}

absl::Status Get(const command::GetGrad& c, SessionState& state, RootErrorPtr* inherited) {
  HandleTable& handles = state.handles;
  CHX_RETURN_IF_ERROR(handles.CheckNew({&c.result, 1}));
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, handles.Use(c.handle, inherited));
  if (*inherited != nullptr) return absl::OkStatus();
  ArrayNode* node = entry->variable.NodeOf(c.backprop_id);
  if (node != nullptr && node->grad == nullptr && state.failed_pass != nullptr) {
    *inherited = state.failed_pass;
    return absl::OkStatus();
  }
  if (node == nullptr || node->grad == nullptr) {
    return GradientError("[grad] the array has no gradient in the graph ",
                         GraphName(c.backprop_id));
  }
  handles.Bind(c.result, *node->grad);
  return absl::OkStatus();
}

}  // namespace

absl::Status FinishPass(Backprop& backprop, uint32_t location, absl::Span<const Handle> results,
                        CommandContext& context) {
  SessionState& state = context.state;
  if (const GradientReducer* const reducer = backprop.reducer();
      reducer != nullptr && reducer->delayed()) {
    const int64_t group = reducer->group();
    const auto it = state.delayed_reductions.find(group);
    std::unique_ptr<GradientReducer> before;
    if (it != state.delayed_reductions.end()) before = std::move(it->second);
    state.delayed_reductions.erase(group);
    CHX_RETURN_IF_ERROR(backprop.Delay(&before));
    state.delayed_reductions[group] = std::move(before);
  }
  CHX_ASSIGN_OR_RETURN(std::vector<absl::optional<Variable>> grads, backprop.Finish());
  // Other commands may have run since the pass began. Nothing points into the table.
  state.handles.Reserve(results.size());
  CHX_RETURN_IF_ERROR(CheckResults(results, state.handles));
  for (size_t i = 0; i < grads.size(); ++i) {
    const Handle result = results[i];
    if (result == 0) continue;
    if (grads[i].has_value()) {
      state.handles.Bind(result, *std::move(grads[i]));
      continue;
    }
    const RootErrorPtr absent = state.errors.NewError(
        location, GradientError("[grad] the outputs do not depend on input ", i), "grad");
    if (!state.handles.lost() || absent != state.handles.LostError()) {
      absent->absent_gradient = true;
    }
    state.handles.BindError(result, absent);
  }
  return absl::OkStatus();
}

void RunCommand(const command::Backward& c, CommandContext& context) { RunPass(c, context); }

void RunCommand(const command::Grad& c, CommandContext& context) { RunPass(c, context); }

void RunCommand(const command::ReduceBackward& c, CommandContext& context) { RunPass(c, context); }

void RunCommand(const command::RequireGrad& c, CommandContext& context) {
  context.FailUnlessOk(c, Require(c, context.state), "");
}

void RunCommand(const command::SetGrad& c, CommandContext& context) {
  context.FailUnlessOk(c, Set(c, context.state.handles), "set_grad");
}

void RunCommand(const command::GetGrad& c, CommandContext& context) {
  RootErrorPtr inherited;
  const absl::Status status = Get(c, context.state, &inherited);
  if (status.ok() && inherited != nullptr) context.Inherit({&c.result, 1}, inherited);
  context.FailUnlessOk(c, status, "grad");
}

}  // namespace chx::server
