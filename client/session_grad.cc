// Gradients of a Session: commands for the daemon, and what they mean for the mirror.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "client/session.h"
#include "client/waiting.h"

namespace chx {
namespace {

bool IsIn(const std::vector<GraphNode*>& nodes, const GraphNode* node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

void FillBackward(const BackwardArgs& args, Command* command) {
  command->backprop_id = args.id;
  if (args.enable_double_backprop) command->flags |= Command::kEnableDoubleBackprop;
  if (args.loss_scale != 1.0) command->flags |= Command::kHasLossScale;
  command->loss_scale = args.loss_scale;
}

}  // namespace

absl::Status Session::RequireGrad(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  CHX_RETURN_IF_ERROR(CheckOwn("require_grad", array));
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  if (!IsFloat(array->spec.dtype)) {
    return DtypeError("[require_grad] expects a float array, got ", array->spec.ToString());
  }
  CHX_RETURN_IF_ERROR(Resolve(array));
  ArrayBody::Place* place = array->PlaceIn(id);
  if (place != nullptr && place->node->grad_required) return absl::OkStatus();
  if (place == nullptr) {
    ForgetClosedGraphs(array);
    array->Connect(id, nullptr);
    place = array->PlaceIn(id);
    place->doubts = backprop_ids_.Doubts(id);
  }
  place->node->grad_required = true;
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kRequireGrad;
  command.handle = array->handle;
  command.backprop_id = id;
  Write(command);
  return absl::OkStatus();
}

// An array that joins a new graph in each iteration would have no end of them.
void Session::ForgetClosedGraphs(ArrayBody* array) {
  for (size_t i = array->places.size(); i-- > 0;) {
    ArrayBody::Place& place = array->places[i];
    if (backprop_ids_.IsOpen(place.node->id)) continue;
    place.node->owner = nullptr;
    array->places.erase(array->places.begin() + static_cast<ptrdiff_t>(i));
  }
}

absl::StatusOr<std::vector<GraphNode*>> Session::StartWalk(absl::string_view op,
                                                           absl::Span<ArrayBody* const> outputs,
                                                           BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  std::vector<GraphNode*> nodes;
  for (ArrayBody* output : outputs) {
    CHX_RETURN_IF_ERROR(CheckOwn(op, output));
    CHX_RETURN_IF_ERROR(Resolve(output));
    ArrayBody::Place* place = output->PlaceIn(id);
    if (place != nullptr) nodes.push_back(place->node.get());
  }
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckAllowed(id));
  backprop_ids_.SetWalked(id);
  return nodes;
}

bool Session::MayBeInGraph(const ArrayBody& array) {
  return array.graphs_unknown || !array.places.empty();
}

bool Session::MayStartInGraph(const ArrayBody::Place& place) {
  return place.grad ? MayBeInGraph(*place.grad) : place.grad_graphs_unknown;
}

void Session::MirrorBackward(const std::vector<GraphNode*>& outputs, const GraphBelow& below,
                             BackpropId id, bool in_graph) {
  const uint64_t before = backprop_ids_.Doubts(id);
  const bool sure = !below.opaque && !below.calls;
  const uint64_t doubts = sure ? before : backprop_ids_.AddDoubt(id);
  for (const Ref<GraphNode>& node : below.nodes) {
    if (!node->grad_required || node->owner == nullptr) continue;
    ArrayBody::Place* place = node->owner->PlaceIn(id);
    if (IsIn(outputs, node.get())) {
      if (place->doubts != before) continue;  // and so it stays
      if (place->has_grad) {                  // from which the walk starts
        place->doubts = doubts;
        continue;
      }
    }
    place->has_grad = true;
    place->grad_graphs_unknown = in_graph || MayStartInGraph(*place);
    place->grad = nullptr;
    // A function need not give a gradient.
    if (!below.calls) place->doubts = doubts;
  }
}

absl::Status Session::Backward(absl::Span<ArrayBody* const> outputs, const BackwardArgs& args,
                               bool* flush_due) {
  if (flush_due != nullptr) *flush_due = false;
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphNode*> nodes,
                       StartWalk("backward", outputs, args.id));
  if (nodes.empty()) return absl::OkStatus();
  const GraphBelow below = Below(nodes);
  // Gradients are in graphs if they are differentiated again, here or in an outer graph.
  bool in_graph = args.enable_double_backprop || backprop_ids_.IsTiedToOuter(args.id);
  for (const GraphNode* node : nodes) {
    in_graph = in_graph || MayStartInGraph(*node->owner->PlaceIn(args.id));
  }
  if (in_graph) hidden_graphs_ = true;
  Command command;
  command.kind = CommandKind::kBackward;
  for (const GraphNode* node : nodes) command.handles.push_back(node->owner->handle);
  FillBackward(args, &command);
  if (below.calls || (below.opaque && HasFunctions())) {
    absl::Status driven = Drive(&command, args);
    // How far an interrupted walk has come only the daemon knows.
    if (driven.ok() || Interruption::Is(driven)) MirrorBackward(nodes, below, args.id, in_graph);
    return driven;
  }
  MirrorBackward(nodes, below, args.id, in_graph);
  bool due = false;
  {
    MutexLock lock(&mutex_);
    command.location = Location();
    command.mode = Mode();
    Write(command);
    due = Due();
  }
  if (exports_.any()) return SynchronizeForExports();
  if (flush_due == nullptr) return due ? Flush(true) : absl::OkStatus();
  *flush_due = due;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ArrayPtr>> Session::Grad(absl::Span<ArrayBody* const> outputs,
                                                    absl::Span<ArrayBody* const> inputs,
                                                    absl::Span<ArrayBody* const> output_grads,
                                                    const BackwardArgs& args) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  if (!output_grads.empty() && output_grads.size() != outputs.size()) {
    return GradientError("[grad] expects as many grad_outputs as outputs (", outputs.size(),
                         "), got ", output_grads.size());
  }
  bool in_graph = args.enable_double_backprop || backprop_ids_.IsTiedToOuter(args.id);
  for (size_t i = 0; i < output_grads.size(); ++i) {
    if (output_grads[i] == nullptr) continue;
    CHX_RETURN_IF_ERROR(CheckOwn("grad", output_grads[i]));
    CHX_RETURN_IF_ERROR(CheckGrad("grad", *output_grads[i], *outputs[i]));
    in_graph = in_graph || MayBeInGraph(*output_grads[i]);
  }
  for (ArrayBody* input : inputs) {
    CHX_RETURN_IF_ERROR(CheckOwn("grad", input));
    CHX_RETURN_IF_ERROR(Resolve(input));
  }
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphNode*> nodes, StartWalk("grad", outputs, args.id));
  const GraphBelow below = Below(nodes);
  absl::flat_hash_set<const GraphNode*> reachable;
  for (const Ref<GraphNode>& node : below.nodes) reachable.insert(node.get());
  for (const GraphNode* node : nodes) {
    in_graph = in_graph || MayStartInGraph(*node->owner->PlaceIn(args.id));
  }
  if (in_graph) hidden_graphs_ = true;
  const bool may_call = below.calls || (below.opaque && HasFunctions());
  // Whether there may be more or fewer gradients than the mirror shows.
  const bool unsure = below.opaque || below.calls;
  if (args.retain_grad) backprop_ids_.AddDoubt(args.id);
  std::vector<ArrayPtr> grads(inputs.size());
  std::vector<bool> sure(inputs.size(), true);
  Command command;
  command.kind = CommandKind::kGrad;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i]->PlaceIn(args.id) == nullptr) continue;
    command.handles.push_back(outputs[i]->handle);
    if (output_grads.empty()) continue;
    command.operands.push_back(output_grads[i] != nullptr ? CommandOperand(output_grads[i]->handle)
                                                          : CommandOperand());
  }
  command.num_outputs = static_cast<uint32_t>(command.handles.size());
  for (ArrayBody* input : inputs) command.handles.push_back(input->handle);
  FillBackward(args, &command);
  if (args.retain_grad) command.flags |= Command::kRetainGrad;
  {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ArrayBody::Place* place = inputs[i]->PlaceIn(args.id);
      const bool shown = place != nullptr && reachable.contains(place->node.get());
      sure[i] = shown && !below.calls;
      const bool wanted = shown || (place != nullptr && below.opaque);
      command.outputs.push_back(wanted ? next_handle_++ : 0);
      if (!wanted) continue;
      const ArraySpec& spec = inputs[i]->spec;
      grads[i] = NewArray(command.outputs.back(), ArraySpec(spec.dtype, spec.shape, spec.device));
      grads[i]->graphs_unknown = in_graph;
      grads[i]->storage_unknown = true;
    }
    if (!may_call && !nodes.empty()) {
      command.location = Location();
      command.mode = Mode();
      Write(command);
    }
  }
  if (may_call) CHX_RETURN_IF_ERROR(Drive(&command, args));
  if (exports_.any()) CHX_RETURN_IF_ERROR(SynchronizeForExports());
  if (unsure) CHX_RETURN_IF_ERROR(DropAbsent(&grads, sure));
  return grads;
}

// Asks which of the gradients that are not sure to be there are.
absl::Status Session::DropAbsent(std::vector<ArrayPtr>* grads, const std::vector<bool>& sure) {
  std::vector<Handle> pairs;
  for (size_t i = 0; i < grads->size(); ++i) {
    if ((*grads)[i] && !sure[i]) pairs.insert(pairs.end(), {(*grads)[i]->handle, 0});
  }
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, AskStates(pairs, 0));
  size_t next = 0;
  for (size_t i = 0; i < grads->size(); ++i) {
    ArrayPtr& grad = (*grads)[i];
    if (!grad || sure[i]) continue;
    const GraphState& state = states[next++];
    LearnGraphs(state, grad.get());
    if (state.value == GraphState::Value::kNoGradient) grad = nullptr;
  }
  return absl::OkStatus();
}

absl::StatusOr<ArrayPtr> Session::GetGrad(ArrayBody* array, BackpropId id) {
  CHX_ASSIGN_OR_RETURN(ArrayBody::Place * place, PlaceOf("grad", array, id));
  if (place->doubts != backprop_ids_.Doubts(id)) {
    CHX_RETURN_IF_ERROR(AskGrad(array, place));
    place = array->PlaceIn(id);
  }
  if (!place->node->grad_required) {
    return ChainerxError("[grad] the array does not keep its gradient for backprop ID '",
                         backprop_ids_.Name(id), "': call require_grad() first");
  }
  if (!place->has_grad || place->grad) return place->grad;
  CHX_RETURN_IF_ERROR(CheckUsable());
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kGetGrad;
  command.handle = array->handle;
  command.backprop_id = id;
  command.outputs.push_back(next_handle_++);
  Write(command);
  const ArraySpec& spec = array->spec;
  place->grad = NewArray(command.outputs[0], ArraySpec(spec.dtype, spec.shape, spec.device));
  place->grad->graphs_unknown = place->grad_graphs_unknown;
  place->grad->storage_unknown = true;
  return place->grad;
}

absl::StatusOr<bool> Session::HasGrad(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(Resolve(array));
  ArrayBody::Place* place = array->PlaceIn(id);
  if (place == nullptr) return false;
  if (place->doubts != backprop_ids_.Doubts(id)) {
    CHX_RETURN_IF_ERROR(AskGrad(array, place));
    place = array->PlaceIn(id);
  }
  return place->has_grad;
}

absl::Status Session::CheckGrad(absl::string_view op, const ArrayBody& grad,
                                const ArrayBody& array) {
  if (grad.spec.shape == array.spec.shape && grad.spec.dtype == array.spec.dtype &&
      grad.spec.device == array.spec.device) {
    return absl::OkStatus();
  }
  return GradientError("[", op, "] expects a gradient of ", array.spec.ToString(),
                       " on the array's device, got ", grad.spec.ToString());
}

absl::Status Session::SetGrad(ArrayBody* array, const ArrayPtr& grad, BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  if (grad) CHX_RETURN_IF_ERROR(CheckOwn("set_grad", grad.get()));
  CHX_ASSIGN_OR_RETURN(ArrayBody::Place * place, PlaceOf("set_grad", array, id));
  if (grad) CHX_RETURN_IF_ERROR(CheckGrad("set_grad", *grad, *array));
  const ArrayPtr old = std::move(place->grad);  // released after the lock
  MutexLock lock(&mutex_);
  place->has_grad = static_cast<bool>(grad);
  place->grad = grad;
  place->grad_graphs_unknown = false;
  place->doubts = backprop_ids_.Doubts(id);
  // What has a gradient can be asked for it.
  if (grad) place->node->grad_required = true;
  Command command;
  command.kind = CommandKind::kSetGrad;
  command.handle = array->handle;
  command.backprop_id = id;
  command.operands.push_back(grad ? CommandOperand(grad->handle) : CommandOperand());
  Write(command);
  return absl::OkStatus();
}

// Graphs that are gone don't count.
absl::Status Session::CheckWritable(const ArrayBody& array) const {
  for (const ArrayBody::Place& place : array.places) {
    if (!backprop_ids_.IsOpen(place.node->id)) continue;
    return ChainerxError("In-place assignment to output array requiring grad is not allowed.");
  }
  return absl::OkStatus();
}

absl::Status Session::CheckWritten(const OpDef& op, absl::Span<const Operand> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].array() == nullptr || !op.IsWritten(i, inputs.size())) continue;
    CHX_RETURN_IF_ERROR(CheckWritable(*inputs[i].array()));
  }
  if (!op.in_place) return absl::OkStatus();
  for (const Operand& input : inputs) {
    if (input.array() == nullptr) continue;
    for (const ArrayBody::Place& place : input.array()->places) {
      if (Records(place.node->id)) {
        return ChainerxError(
            "In-place assignment that involves input arrays requiring grad is not allowed.");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace chx
