// The commands about gradients.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/autograd/backward.h"
#include "server/session/session.h"

namespace chx {
namespace {

std::string GraphName(BackpropId id) {
  return id == 0 ? "'<default>'" : absl::StrCat("number ", id);
}

absl::Status CheckGrad(absl::string_view op, const ArraySpec& grad, const ArraySpec& array) {
  if (grad.shape == array.shape && grad.dtype == array.dtype && grad.device == array.device) {
    return absl::OkStatus();
  }
  return GradientError("[", op, "] expects a gradient of ", array.ToString(),
                       " on the array's device, got ", grad.ToString());
}

}  // namespace

absl::Status Session::CheckBackpropId(BackpropId id) const {
  if (id == 0 || backprop_ids_.contains(id)) return absl::OkStatus();
  return ChainerxError("the backprop id ", id, " has expired");
}

absl::Status Session::RequireGrad(const Command& command) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &inherited));
  if (inherited != nullptr) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(CheckBackpropId(command.backprop_id));
  Variable& variable = entry->variable;
  if (!IsFloat(variable.array.spec.dtype)) {
    return DtypeError("[require_grad] expects a float array, got ", variable.array.spec.ToString());
  }
  if (variable.NodeOf(command.backprop_id) == nullptr) {
    if (variable.nodes.size() >= kMaxGraphsOfArray) {
      return ChainerxError("[require_grad] expects an array that is in at most ",
                           kMaxGraphsOfArray - 1, " graphs");
    }
    const int64_t before = variable.HeapBytes();
    if (!meter_.Reserve(ArrayNode::Bytes())) {
      return MemoryError("[require_grad] ", meter_.Exhausted(ArrayNode::Bytes()).message());
    }
    variable.nodes.push_back(MakeRef<ArrayNode>(command.backprop_id, variable.array.spec, &graph_));
    meter_.Charge(variable.HeapBytes() - before);
    ++variable.nodes.back()->handles;
    if (command.backprop_id != 0) NoteMember(command.backprop_id, command.handle);
  }
  variable.NodeOf(command.backprop_id)->grad_required = true;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Variable*>> Session::UseAll(absl::Span<const Handle> handles,
                                                       RootErrorPtr* inherited) {
  std::vector<Variable*> variables;
  for (Handle handle : handles) {
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(handle, inherited));
    variables.push_back(&entry->variable);
  }
  return variables;
}

absl::StatusOr<std::unique_ptr<Backprop>> Session::StartBackward(const Command& command,
                                                                 RootErrorPtr* inherited) {
  CHX_RETURN_IF_ERROR(CheckBackpropId(command.backprop_id));
  CHX_ASSIGN_OR_RETURN(std::vector<Variable*> outputs, UseAll(command.handles, inherited));
  const RecordMode* mode = ModeOf(command.mode);
  if (mode == nullptr) return ValueError("[backward] expects a defined mode");
  if (*inherited != nullptr) return nullptr;
  Runtime runtime{executor_, graph_};
  return Backprop::Backward(runtime, outputs, OptionsOf(command), *mode);
}

BackwardOptions Session::OptionsOf(const Command& command) {
  BackwardOptions options;
  options.id = command.backprop_id;
  options.enable_double_backprop = (command.flags & Command::kEnableDoubleBackprop) != 0;
  if ((command.flags & Command::kHasLossScale) != 0) options.loss_scale = command.loss_scale;
  options.retain_grad = (command.flags & Command::kRetainGrad) != 0;
  return options;
}

absl::StatusOr<std::unique_ptr<Backprop>> Session::StartGrad(const Command& command,
                                                             RootErrorPtr* inherited) {
  CHX_RETURN_IF_ERROR(CheckBackpropId(command.backprop_id));
  const absl::Span<const Handle> handles = command.handles;
  CHX_ASSIGN_OR_RETURN(std::vector<Variable*> outputs,
                       UseAll(handles.subspan(0, command.num_outputs), inherited));
  CHX_ASSIGN_OR_RETURN(std::vector<Variable*> inputs,
                       UseAll(handles.subspan(command.num_outputs), inherited));
  std::vector<Variable*> output_grads;
  for (const CommandOperand& operand : command.operands) {
    output_grads.push_back(nullptr);
    if (operand.kind == OperandKind::kAbsent) continue;
    if (operand.kind != OperandKind::kArray) {
      return TypeError("[grad] expects arrays as grad_outputs, got a scalar");
    }
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(operand.handle, inherited));
    output_grads.back() = &entry->variable;
  }
  if (command.outputs.size() != inputs.size()) {
    return TypeError("[grad] expects a result handle for each of ", inputs.size(), " inputs, got ",
                     command.outputs.size());
  }
  CHX_RETURN_IF_ERROR(CheckGradHandles(command));
  const RecordMode* mode = ModeOf(command.mode);
  if (mode == nullptr) return ValueError("[grad] expects a defined mode");
  if (*inherited != nullptr) return nullptr;
  Runtime runtime{executor_, graph_};
  return Backprop::Grad(runtime, outputs, inputs, output_grads, OptionsOf(command), *mode);
}

absl::Status Session::CheckGradHandles(const Command& command) {
  std::vector<Handle> wanted;
  for (Handle handle : command.outputs) {
    if (handle != 0) wanted.push_back(handle);
  }
  return CheckNewHandles(wanted);
}

void Session::StartWalk(const Command& command, SessionOutput* output) {
  const bool is_grad = command.kind == CommandKind::kGrad;
  RootErrorPtr inherited;
  absl::StatusOr<std::unique_ptr<Backprop>> started =
      is_grad ? StartGrad(command, &inherited) : StartBackward(command, &inherited);
  if ((command.flags & Command::kMayCall) != 0) {
    PendingWalk walk;
    walk.command.kind = command.kind;
    walk.command.location = command.location;
    absl::Status status = started.status();
    absl::StatusOr<MemoryCharge> charge =
        MemoryCharge::Of(account(), static_cast<int64_t>(command.outputs.size() * sizeof(Handle)));
    if (charge.ok()) {
      walk.command.outputs = command.outputs;
      walk.charge = *std::move(charge);
    } else if (status.ok()) {
      status = charge.status();
    }
    if (started.ok()) walk.backprop = *std::move(started);
    return AnswerWalk(std::move(walk), command.request_id, command.request_id, status, inherited,
                      output);
  }
  absl::Status status = started.ok() ? absl::OkStatus() : started.status();
  if (status.ok() && inherited == nullptr) {
    status = (*started)->walk().Run();
    if (status.ok() && (*started)->walk().waiting() != nullptr) {
      status = ChainerxError("[backward] comes to a function of the client, which does not wait");
    }
    if (status.ok()) status = FinishWalk(command, started->get());
  }
  if (!status.ok()) {
    Fail(command, std::move(status), is_grad ? "grad" : "backward", "", output);
    return;
  }
  if (inherited == nullptr) return;
  if (is_grad) return Inherit(command, inherited);
  // Without a loss there are no gradients: whoever waits for one learns why.
  output->errors.push_back({0, inherited});
}

// Binds what grad gives.
absl::Status Session::FinishWalk(const Command& command, Backprop* backprop) {
  CHX_ASSIGN_OR_RETURN(std::vector<absl::optional<Variable>> grads, backprop->Finish());
  if (command.kind != CommandKind::kGrad) return absl::OkStatus();
  CHX_RETURN_IF_ERROR(CheckGradHandles(command));  // other commands may have run
  for (size_t i = 0; i < grads.size(); ++i) {
    if (command.outputs[i] == 0) continue;
    if (grads[i].has_value()) {
      Bind(command.outputs[i], *std::move(grads[i]));
      continue;
    }
    Command missing;
    missing.kind = CommandKind::kGrad;
    missing.location = command.location;
    missing.outputs.push_back(command.outputs[i]);
    RootErrorPtr absent = NewRootError(
        command, GradientError("[grad] the outputs do not depend on input ", i), "grad", "");
    if (absent != lost_.error) absent->absent_gradient = true;
    Inherit(missing, absent);
  }
  return absl::OkStatus();
}

void Session::SetGrad(const Command& command, SessionOutput* output) {
  RootErrorPtr inherited;
  const auto set_grad = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &inherited));
    if (inherited != nullptr) return absl::OkStatus();
    ArrayNode* node = entry->variable.NodeOf(command.backprop_id);
    if (node == nullptr) {
      return ChainerxError("[set_grad] the array is not in the graph ",
                           GraphName(command.backprop_id));
    }
    if (command.operands.empty() || command.operands[0].kind == OperandKind::kAbsent) {
      node->grad = nullptr;
      return absl::OkStatus();
    }
    if (command.operands[0].kind != OperandKind::kArray) {
      return TypeError("[set_grad] expects an array, got a scalar");
    }
    CHX_ASSIGN_OR_RETURN(Entry * grad, Use(command.operands[0].handle, &inherited));
    if (inherited != nullptr) return absl::OkStatus();
    CHX_RETURN_IF_ERROR(CheckGrad("set_grad", grad->variable.array.spec, node->spec));
    node->grad = std::make_unique<Variable>(grad->variable);
    node->grad_required = true;
    return absl::OkStatus();
  };
  absl::Status status = set_grad();
  if (!status.ok()) Fail(command, std::move(status), "set_grad", "", output);
}

void Session::GetGrad(const Command& command, SessionOutput* output) {
  RootErrorPtr inherited;
  const auto get_grad = [&]() -> absl::Status {
    CHX_RETURN_IF_ERROR(CheckNewHandles(command.outputs));
    if (command.outputs.size() != 1) {
      return TypeError("[grad] expects one result handle, got ", command.outputs.size());
    }
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &inherited));
    if (inherited != nullptr) return absl::OkStatus();
    ArrayNode* node = entry->variable.NodeOf(command.backprop_id);
    if (node == nullptr || node->grad == nullptr) {
      return GradientError("[grad] the array has no gradient in the graph ",
                           GraphName(command.backprop_id));
    }
    Bind(command.outputs[0], *node->grad);
    return absl::OkStatus();
  };
  absl::Status status = get_grad();
  if (!status.ok()) {
    Fail(command, std::move(status), "grad", "", output);
    return;
  }
  if (inherited != nullptr) Inherit(command, inherited);
}

}  // namespace chx
