// Gradients of a Session: commands for the daemon, and what they mean for the mirror.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "client/modes.h"
#include "client/session.h"

namespace chx {
namespace {

std::string GraphName(BackpropId id) {
  return id == 0 ? "'<default>'" : absl::StrCat("number ", id);
}

// The nodes that a walk would start from.
absl::Status StartNodes(absl::Span<ArrayBody* const> outputs, BackpropId id,
                        std::vector<GraphNode*>* nodes) {
  for (ArrayBody* output : outputs) {
    ArrayBody::Place* place = output->PlaceIn(id);
    if (place == nullptr) {
      return ChainerxError(
          "Cannot start backprop from an array whose gradient is not required (on graph ",
          GraphName(id), ")");
    }
    nodes->push_back(place->node.get());
  }
  return absl::OkStatus();
}

// Under double backprop the gradients depend on everything below the outputs, as far as the mirror
// is concerned; the daemon knows better, and says so if a walk from them reaches nothing.
Ref<MirrorOp> GradCreator(const std::vector<GraphNode*>& below, const BackwardArgs& args) {
  if (!args.enable_double_backprop) return nullptr;
  Ref<MirrorOp> op = MakeRef<MirrorOp>();
  for (GraphNode* node : below) op->inputs.emplace_back(node);
  return op;
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
  if (!IsFloat(array->spec.dtype)) {
    return DtypeError("[require_grad] expects a float array, got ", array->spec.ToString());
  }
  ArrayBody::Place* place = array->PlaceIn(id);
  if (place != nullptr && place->node->grad_required) return absl::OkStatus();
  if (place == nullptr) {
    array->Connect(id, nullptr);
    place = array->PlaceIn(id);
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

absl::Status Session::Backward(absl::Span<ArrayBody* const> outputs, const BackwardArgs& args,
                               bool* flush_due) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  for (const ArrayBody* output : outputs) CHX_RETURN_IF_ERROR(CheckOwn("backward", output));
  std::vector<GraphNode*> nodes;
  CHX_RETURN_IF_ERROR(StartNodes(outputs, args.id, &nodes));
  const std::vector<GraphNode*> below = Below(nodes);
  const Ref<MirrorOp> creator = GradCreator(below, args);
  std::vector<ArrayBody::Place*> changed;
  for (GraphNode* node : below) {
    if (!node->grad_required || node->owner == nullptr) continue;
    ArrayBody::Place* place = node->owner->PlaceIn(args.id);
    const bool started =
        place->has_grad && std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    if (!started) changed.push_back(place);
  }
  for (ArrayBody::Place* place : changed) {
    place->has_grad = true;
    place->grad = nullptr;
    place->grad_creator = creator;
  }
  bool due = false;
  {
    MutexLock lock(&mutex_);
    Command command;
    command.kind = CommandKind::kBackward;
    for (ArrayBody* output : outputs) command.handles.push_back(output->handle);
    command.location = Location();
    command.mode = Mode();
    FillBackward(args, &command);
    Write(command);
    due = Due();
  }
  if (flush_due == nullptr) return due ? Flush() : absl::OkStatus();
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
  for (const auto& arrays : {outputs, inputs, output_grads}) {
    for (const ArrayBody* array : arrays) {
      if (array != nullptr) CHX_RETURN_IF_ERROR(CheckOwn("grad", array));
    }
  }
  std::vector<GraphNode*> nodes;
  CHX_RETURN_IF_ERROR(StartNodes(outputs, args.id, &nodes));
  for (size_t i = 0; i < output_grads.size(); ++i) {
    if (output_grads[i] == nullptr) continue;
    const ArraySpec& grad = output_grads[i]->spec;
    if (grad.shape != outputs[i]->spec.shape || grad.dtype != outputs[i]->spec.dtype) {
      return GradientError("[grad] expects a grad_output of ", outputs[i]->spec.ToString(),
                           ", got ", grad.ToString());
    }
  }
  const std::vector<GraphNode*> below = Below(nodes);
  const absl::flat_hash_set<GraphNode*> reachable(below.begin(), below.end());
  const Ref<MirrorOp> creator = GradCreator(below, args);
  std::vector<ArrayPtr> grads(inputs.size());
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kGrad;
  command.num_outputs = static_cast<uint32_t>(outputs.size());
  for (ArrayBody* output : outputs) command.handles.push_back(output->handle);
  for (size_t i = 0; i < inputs.size(); ++i) {
    command.handles.push_back(inputs[i]->handle);
    const ArrayBody::Place* place = inputs[i]->PlaceIn(args.id);
    const bool reached = place != nullptr && reachable.contains(place->node.get());
    command.outputs.push_back(reached ? next_handle_++ : 0);
    if (!reached) continue;
    const ArraySpec& spec = inputs[i]->spec;
    grads[i] = NewArray(command.outputs.back(), ArraySpec(spec.dtype, spec.shape, spec.device));
    if (creator) grads[i]->Connect(args.id, creator);
  }
  for (ArrayBody* grad : output_grads) {
    command.operands.push_back(grad != nullptr ? CommandOperand(grad->handle) : CommandOperand());
  }
  command.location = Location();
  command.mode = Mode();
  FillBackward(args, &command);
  Write(command);
  return grads;
}

absl::StatusOr<ArrayPtr> Session::GetGrad(ArrayBody* array, BackpropId id) {
  ArrayBody::Place* place = array->PlaceIn(id);
  if (place == nullptr) {
    return ChainerxError("Array is not in the graph ", GraphName(id),
                         ": call require_grad() first");
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
  if (place->grad_creator) place->grad->Connect(id, place->grad_creator);
  return place->grad;
}

absl::Status Session::SetGrad(ArrayBody* array, const ArrayPtr& grad, BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  if (grad) CHX_RETURN_IF_ERROR(CheckOwn("set_grad", grad.get()));
  ArrayBody::Place* place = array->PlaceIn(id);
  if (place == nullptr) {
    return ChainerxError("Array is not in the graph ", GraphName(id),
                         ": call require_grad() first");
  }
  if (grad && (grad->spec.shape != array->spec.shape || grad->spec.dtype != array->spec.dtype ||
               grad->spec.device != array->spec.device)) {
    return GradientError("[set_grad] expects a gradient of ", array->spec.ToString(),
                         " on the array's device, got ", grad->spec.ToString());
  }
  const ArrayPtr old = std::move(place->grad);  // released after the lock
  MutexLock lock(&mutex_);
  place->has_grad = static_cast<bool>(grad);
  place->grad = grad;
  place->grad_creator = nullptr;
  Command command;
  command.kind = CommandKind::kSetGrad;
  command.handle = array->handle;
  command.backprop_id = id;
  command.operands.push_back(grad ? CommandOperand(grad->handle) : CommandOperand());
  Write(command);
  return absl::OkStatus();
}

BackpropId Session::NewBackpropId() {
  if (Forked()) return 0;
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kNewBackpropId;
  command.backprop_id = next_backprop_id_++;
  Write(command);
  return command.backprop_id;
}

void Session::ReleaseBackpropId(BackpropId id) {
  if (Forked()) return;
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kReleaseBackpropId;
  command.backprop_id = id;
  Write(command);
}

}  // namespace chx
