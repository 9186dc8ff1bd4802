#include "client/gradients.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client/backward_pass_driver.h"
#include "client/call_log.h"
#include "client/connection.h"
#include "client/distributed.h"
#include "client/exports.h"
#include "client/programs.h"
#include "client/session.h"
#include "client/waiting.h"
#include "ops/error.h"
#include "proto/command_codec.h"

namespace chx {
namespace {

bool MayBeInGraph(const ArrayBody& array) {
  return array.graphs_unknown || !array.memberships.empty();
}

// Whether a pass that starts at the array may start with a gradient that is in a graph.
bool MayStartInGraph(const GraphMembership& membership) {
  return membership.grad ? MayBeInGraph(*membership.grad) : membership.grad_graphs_unknown;
}

absl::Status CheckGrad(absl::string_view op, const ArrayBody& grad, const ArrayBody& array) {
  if (grad.spec.shape == array.spec.shape && grad.spec.dtype == array.spec.dtype &&
      grad.spec.device == array.spec.device) {
    return absl::OkStatus();
  }
  return GradientError("[", op, "] expects a gradient of ", array.spec.ToString(),
                       " on the array's device, got ", grad.spec.ToString());
}

// A command has no room for longer lists.
absl::Status CheckCount(absl::string_view op, absl::string_view what, size_t count) {
  if (count <= CommandWriter::kMaxCount) return absl::OkStatus();
  return ValueError("[", op, "] expects at most ", CommandWriter::kMaxCount, " ", what, ", got ",
                    count);
}

// A pass that may call functions of the client waits for the daemon.
absl::Status CheckNotRecorded(const CommandQueue& queue) {
  if (!queue.Records()) return absl::OkStatus();
  return MakeError(ErrorKind::kNotImplemented,
                   "[jit] cannot record a backward pass that may call a function of the client: "
                   "compute these gradients outside of the function");
}

ArraySpec ContiguousLike(const ArraySpec& spec) {
  return ArraySpec(spec.dtype, spec.shape, spec.device);
}

command::Backward BackwardCommand(const std::vector<GraphNode*>& nodes, const BackwardArgs& args) {
  command::Backward command;
  command.backprop_id = args.id;
  command.enable_double_backprop = args.enable_double_backprop;
  command.loss_scale = args.loss_scale;
  for (const GraphNode* node : nodes) command.outputs.push_back(node->owner->handle);
  return command;
}

command::Grad GradCommand(absl::Span<ArrayBody* const> outputs, absl::Span<ArrayBody* const> inputs,
                          absl::Span<ArrayBody* const> output_grads, const BackwardArgs& args) {
  command::Grad command;
  command.backprop_id = args.id;
  command.enable_double_backprop = args.enable_double_backprop;
  command.retain_grad = args.retain_grad;
  command.loss_scale = args.loss_scale;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]->MembershipIn(args.id) == nullptr) continue;
    command.outputs.push_back(outputs[i]->handle);
    if (output_grads.empty()) continue;
    command.output_grads.push_back(output_grads[i] != nullptr ? output_grads[i]->handle : 0);
  }
  for (const ArrayBody* input : inputs) command.inputs.push_back(input->handle);
  return command;
}

}  // namespace

Gradients::Gradients(Session* session, CommandQueue* queue, GraphMirror* graphs,
                     ClientFunctions* functions)
    : session_(*session),
      queue_(*queue),
      graphs_(*graphs),
      backprop_ids_(graphs->backprop_ids()),
      functions_(*functions) {}

absl::Status Gradients::RequireGrad(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(session_.CheckOwn("require_grad", array));
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  if (!IsFloat(array->spec.dtype)) {
    return DtypeError("[require_grad] expects a float array, got ", array->spec.ToString());
  }
  CHX_RETURN_IF_ERROR(graphs_.Resolve(array));
  GraphMembership* membership = array->MembershipIn(id);
  if (membership != nullptr && membership->node->grad_required) return absl::OkStatus();
  if (membership == nullptr) {
    graphs_.ForgetClosedGraphs(array);
    array->Connect(id, nullptr);
    membership = array->MembershipIn(id);
    membership->grad_version = backprop_ids_.GradVersion(id);
  }
  membership->node->grad_required = true;
  MutexLock lock(&queue_.mutex());
  queue_.Append(command::RequireGrad{array->handle, id});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<GraphNode*>> Gradients::StartPass(absl::string_view op,
                                                             absl::Span<ArrayBody* const> outputs,
                                                             BackpropId id) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_RETURN_IF_ERROR(CheckCount(op, "outputs", outputs.size()));
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  std::vector<GraphNode*> nodes;
  for (ArrayBody* output : outputs) {
    CHX_RETURN_IF_ERROR(session_.CheckOwn(op, output));
    CHX_RETURN_IF_ERROR(graphs_.Resolve(output));
    const GraphMembership* membership = output->MembershipIn(id);
    if (membership != nullptr) nodes.push_back(membership->node.get());
  }
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckAllowed(id));
  backprop_ids_.SetBackpropped(id);
  return nodes;
}

// Gradients are in graphs if they are differentiated again, here or in an outer graph.
bool Gradients::IsRecorded(const std::vector<GraphNode*>& nodes, const BackwardArgs& args) const {
  if (args.enable_double_backprop || backprop_ids_.IsTiedToOuter(args.id)) return true;
  return std::any_of(nodes.begin(), nodes.end(), [&](const GraphNode* node) {
    return MayStartInGraph(*node->owner->MembershipIn(args.id));
  });
}

bool Gradients::MayCallFunctions(const Reachable& reachable) const {
  return reachable.calls || (reachable.opaque && functions_.any());
}

void Gradients::UpdateMemberships(const std::vector<GraphNode*>& outputs,
                                  const Reachable& reachable, BackpropId id, bool in_graph) {
  const uint64_t before = backprop_ids_.GradVersion(id);
  const bool sure = !reachable.opaque && !reachable.calls;
  const uint64_t after = sure ? before : backprop_ids_.IncrementGradVersion(id);
  for (const Ref<GraphNode>& node : reachable.nodes) {
    if (!node->grad_required || node->owner == nullptr) continue;
    GraphMembership* membership = node->owner->MembershipIn(id);
    if (std::find(outputs.begin(), outputs.end(), node.get()) != outputs.end()) {
      if (membership->grad_version != before) continue;  // and so it stays
      if (membership->has_grad) {                        // from which the pass starts
        membership->grad_version = after;
        continue;
      }
    }
    membership->has_grad = true;
    membership->grad_graphs_unknown = in_graph || MayStartInGraph(*membership);
    membership->grad = nullptr;
    // A function need not give a gradient.
    if (!reachable.calls) membership->grad_version = after;
  }
}

template <typename PassCommand>
absl::StatusOr<bool> Gradients::RunPass(PassCommand command, const std::vector<GraphNode*>& nodes,
                                        const BackwardArgs& args) {
  const Reachable reachable = FindReachable(nodes);
  const bool may_call = MayCallFunctions(reachable);
  if (may_call) CHX_RETURN_IF_ERROR(CheckNotRecorded(queue_));
  session_.programs().NoteGradients();
  const bool in_graph = IsRecorded(nodes, args);
  if (in_graph) functions_.ExpectHiddenGraphs();
  if (may_call) {
    absl::Status driven = BackwardPassDriver(&session_, args).Run(std::move(command));
    // How far an interrupted pass has come only the daemon knows.
    if (driven.ok() || Interruption::Is(driven)) {
      UpdateMemberships(nodes, reachable, args.id, in_graph);
    }
    if (!driven.ok()) return driven;
    return false;
  }
  UpdateMemberships(nodes, reachable, args.id, in_graph);
  MutexLock lock(&queue_.mutex());
  command.location = queue_.Location();
  command.mode = queue_.Mode();
  queue_.Append(std::move(command));
  return queue_.Due();
}

absl::Status Gradients::Flush(bool due, bool* flush_due) {
  if (session_.exports().any()) return session_.exports().Synchronize();
  if (flush_due == nullptr) return due ? queue_.FlushDue() : absl::OkStatus();
  *flush_due = due;
  return absl::OkStatus();
}

absl::Status Gradients::Backward(absl::Span<ArrayBody* const> outputs, const BackwardArgs& args,
                                 bool* flush_due) {
  if (flush_due != nullptr) *flush_due = false;
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphNode*> nodes,
                       StartPass("backward", outputs, args.id));
  if (nodes.empty()) return absl::OkStatus();
  command::Backward command = BackwardCommand(nodes, args);
  CHX_ASSIGN_OR_RETURN(const bool due, RunPass(std::move(command), nodes, args));
  return Flush(due, flush_due);
}

absl::Status Gradients::CheckParameters(absl::Span<ArrayBody* const> parameters, BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckCount("backward", "parameters", parameters.size()));
  for (ArrayBody* parameter : parameters) {
    CHX_RETURN_IF_ERROR(session_.CheckOwn("backward", parameter));
    CHX_RETURN_IF_ERROR(graphs_.Resolve(parameter));
    const GraphMembership* const membership = parameter->MembershipIn(id);
    if (membership == nullptr || !membership->node->grad_required) {
      return GradientError("[backward] expects parameters that require a gradient, got ",
                           parameter->spec.ToString(), ": call require_grad() first");
    }
  }
  return absl::OkStatus();
}

absl::Status Gradients::ReduceBackward(absl::Span<ArrayBody* const> outputs,
                                       absl::Span<ArrayBody* const> parameters, const Ints& group,
                                       const GradientReduction& reduction, const BackwardArgs& args,
                                       bool* flush_due) {
  if (flush_due != nullptr) *flush_due = false;
  if (args.enable_double_backprop) {
    return ValueError("[backward] cannot reduce gradients that are differentiated again");
  }
  if (!session_.connection().knows_reduce_backward()) {
    return MakeError(ErrorKind::kNotImplemented,
                     "[backward] the daemon is older: it does not reduce gradients meanwhile");
  }
  CHX_RETURN_IF_ERROR(CheckParameters(parameters, args.id));
  if (parameters.empty() || group.size() != 3) {
    return ValueError("[backward] expects a group, and parameters to reduce");
  }
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphNode*> nodes,
                       StartPass("backward", outputs, args.id));
  command::ReduceBackward command;
  command.backprop_id = args.id;
  command.loss_scale = args.loss_scale;
  command.delayed = reduction.delayed;
  command.reducer = reduction.reducer;
  command.bucket_bytes = reduction.bucket_bytes;
  if (reduction.dtype.has_value()) command.dtype = static_cast<int64_t>(*reduction.dtype);
  command.group = group[0];
  command.rank = group[1];
  command.size = group[2];
  command.reduction = reduction.reduction;
  for (const GraphNode* node : nodes) command.outputs.push_back(node->owner->handle);
  for (const ArrayBody* parameter : parameters) command.parameters.push_back(parameter->handle);
  CHX_ASSIGN_OR_RETURN(const bool due, RunPass(std::move(command), nodes, args));
  for (ArrayBody* parameter : parameters) {
    GraphMembership* const membership = parameter->MembershipIn(args.id);
    membership->has_grad = true;
    membership->grad_graphs_unknown = MayStartInGraph(*membership);
    membership->grad = nullptr;
    membership->grad_version = backprop_ids_.GradVersion(args.id);
  }
  return Flush(due, flush_due);
}

absl::Status Gradients::CheckGradArguments(absl::Span<ArrayBody* const> outputs,
                                           absl::Span<ArrayBody* const> inputs,
                                           absl::Span<ArrayBody* const> output_grads) {
  if (!output_grads.empty() && output_grads.size() != outputs.size()) {
    return GradientError("[grad] expects as many grad_outputs as outputs (", outputs.size(),
                         "), got ", output_grads.size());
  }
  CHX_RETURN_IF_ERROR(CheckCount("grad", "inputs", inputs.size()));
  for (size_t i = 0; i < output_grads.size(); ++i) {
    if (output_grads[i] == nullptr) continue;
    CHX_RETURN_IF_ERROR(session_.CheckOwn("grad", output_grads[i]));
    CHX_RETURN_IF_ERROR(CheckGrad("grad", *output_grads[i], *outputs[i]));
  }
  for (ArrayBody* input : inputs) {
    CHX_RETURN_IF_ERROR(session_.CheckOwn("grad", input));
    CHX_RETURN_IF_ERROR(graphs_.Resolve(input));
  }
  return absl::OkStatus();
}

std::vector<ArrayPtr> Gradients::NewGrads(absl::Span<ArrayBody* const> inputs,
                                          const Reachable& reachable, bool in_graph,
                                          command::Grad* command, std::vector<bool>* sure) {
  absl::flat_hash_set<const GraphNode*> reachable_nodes;
  for (const Ref<GraphNode>& node : reachable.nodes) reachable_nodes.insert(node.get());
  std::vector<ArrayPtr> grads(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphMembership* membership = inputs[i]->MembershipIn(command->backprop_id);
    const bool shown = membership != nullptr && reachable_nodes.contains(membership->node.get());
    sure->push_back(shown && !reachable.calls);
    const bool wanted = shown || (membership != nullptr && reachable.opaque);
    command->results.push_back(wanted ? queue_.AllocateHandle() : 0);
    if (!wanted) continue;
    grads[i] = session_.NewArray(command->results.back(), ContiguousLike(inputs[i]->spec));
    grads[i]->graphs_unknown = in_graph;
    grads[i]->storage_unknown = true;
  }
  return grads;
}

absl::StatusOr<std::vector<ArrayPtr>> Gradients::Grad(absl::Span<ArrayBody* const> outputs,
                                                      absl::Span<ArrayBody* const> inputs,
                                                      absl::Span<ArrayBody* const> output_grads,
                                                      const BackwardArgs& args) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  const bool starts_in_graph =
      std::any_of(output_grads.begin(), output_grads.end(),
                  [](const ArrayBody* grad) { return grad != nullptr && MayBeInGraph(*grad); });
  CHX_RETURN_IF_ERROR(CheckGradArguments(outputs, inputs, output_grads));
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphNode*> nodes, StartPass("grad", outputs, args.id));
  const Reachable reachable = FindReachable(nodes);
  const bool may_call = MayCallFunctions(reachable);
  // Before there are handles that nothing would be bound to.
  if (may_call) CHX_RETURN_IF_ERROR(CheckNotRecorded(queue_));
  const bool in_graph = starts_in_graph || IsRecorded(nodes, args);
  if (in_graph) functions_.ExpectHiddenGraphs();
  if (CallLog* const log = CallLog::Current()) log->NoteGradients();
  if (args.retain_grad) session_.programs().NoteGradients();
  if (args.retain_grad) backprop_ids_.IncrementGradVersion(args.id);
  command::Grad command = GradCommand(outputs, inputs, output_grads, args);
  std::vector<bool> sure;
  std::vector<ArrayPtr> grads = NewGrads(inputs, reachable, in_graph, &command, &sure);
  if (may_call) {
    CHX_RETURN_IF_ERROR(BackwardPassDriver(&session_, args).Run(std::move(command)));
  } else if (!nodes.empty()) {
    MutexLock lock(&queue_.mutex());
    command.location = queue_.Location();
    command.mode = queue_.Mode();
    queue_.Append(std::move(command));
  }
  if (session_.exports().any()) CHX_RETURN_IF_ERROR(session_.exports().Synchronize());
  // There may be more or fewer gradients than the mirror shows.
  if (reachable.opaque || reachable.calls) CHX_RETURN_IF_ERROR(DropAbsent(sure, &grads));
  return grads;
}

absl::Status Gradients::DropAbsent(const std::vector<bool>& sure, std::vector<ArrayPtr>* grads) {
  std::vector<Handle> pairs;
  for (size_t i = 0; i < grads->size(); ++i) {
    if ((*grads)[i] && !sure[i]) pairs.insert(pairs.end(), {(*grads)[i]->handle, 0});
  }
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, graphs_.queries().States(pairs, 0));
  size_t next = 0;
  for (size_t i = 0; i < grads->size(); ++i) {
    ArrayPtr& grad = (*grads)[i];
    if (!grad || sure[i]) continue;
    const GraphState& state = states[next++];
    GraphMirror::Learn(state, grad.get());
    if (state.value == GraphState::Value::kNoGradient) grad = nullptr;
  }
  return absl::OkStatus();
}

absl::Status Gradients::RefreshGrad(ArrayBody* array, GraphMembership* membership) {
  const BackpropId id = membership->node->id;
  const uint64_t version = backprop_ids_.GradVersion(id);
  if (membership->grad_version == version) return absl::OkStatus();
  // Held, as is the array by the caller: another thread may set it meanwhile.
  const ArrayPtr seen = membership->grad;
  const Handle pair[] = {array->handle, seen ? seen->handle : 0};
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, graphs_.queries().States(pair, id));
  membership = array->MembershipIn(id);
  if (membership == nullptr || membership->grad_version == version) return absl::OkStatus();
  membership->grad_version = version;
  membership->has_grad = states[0].has_grad;
  if (membership->has_grad) membership->node->grad_required = true;
  if (states[0].same_grad && membership->grad == seen) return absl::OkStatus();
  membership->grad = nullptr;
  membership->grad_graphs_unknown = true;
  return absl::OkStatus();
}

absl::StatusOr<ArrayPtr> Gradients::GetGrad(ArrayBody* array, BackpropId id) {
  CHX_ASSIGN_OR_RETURN(GraphMembership * membership, graphs_.MembershipOf("grad", array, id));
  CHX_RETURN_IF_ERROR(RefreshGrad(array, membership));
  // A wait may have let another thread change the list.
  CHX_ASSIGN_OR_RETURN(membership, graphs_.MembershipOf("grad", array, id));
  if (!membership->node->grad_required) {
    return ChainerxError("[grad] the array does not keep its gradient for backprop ID '",
                         backprop_ids_.Name(id), "': call require_grad() first");
  }
  if (!membership->has_grad || membership->grad) return membership->grad;
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  MutexLock lock(&queue_.mutex());
  const Handle handle = queue_.NewHandle();
  queue_.Append(command::GetGrad{array->handle, id, handle});
  membership->grad = session_.NewArray(handle, ContiguousLike(array->spec));
  membership->grad->graphs_unknown = membership->grad_graphs_unknown;
  membership->grad->storage_unknown = true;
  return membership->grad;
}

absl::StatusOr<bool> Gradients::HasGrad(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(graphs_.Resolve(array));
  GraphMembership* membership = array->MembershipIn(id);
  if (membership == nullptr) return false;
  CHX_RETURN_IF_ERROR(RefreshGrad(array, membership));
  membership = array->MembershipIn(id);
  return membership != nullptr && membership->has_grad;
}

absl::Status Gradients::SetGrad(ArrayBody* array, const ArrayPtr& grad, BackpropId id) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  if (grad) CHX_RETURN_IF_ERROR(session_.CheckOwn("set_grad", grad.get()));
  CHX_ASSIGN_OR_RETURN(GraphMembership * membership, graphs_.MembershipOf("set_grad", array, id));
  if (grad) CHX_RETURN_IF_ERROR(CheckGrad("set_grad", *grad, *array));
  session_.programs().NoteGradients();
  const ArrayPtr old = std::move(membership->grad);  // released after the lock
  MutexLock lock(&queue_.mutex());
  membership->has_grad = static_cast<bool>(grad);
  membership->grad = grad;
  membership->grad_graphs_unknown = false;
  membership->grad_version = backprop_ids_.GradVersion(id);
  // What has a gradient can be asked for it.
  if (grad) membership->node->grad_required = true;
  queue_.Append(command::SetGrad{array->handle, grad ? grad->handle : 0, id});
  return absl::OkStatus();
}

}  // namespace chx
