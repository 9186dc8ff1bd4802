#include "client/backward_pass_driver.h"

#include <utility>

#include "client/modes.h"
#include "client/session.h"
#include "client/waiting.h"
#include "ops/error.h"

namespace chx {
namespace {

// While a function computes gradients, graphs record as in the rest of its backward pass.
class PassMode {
 public:
  PassMode(const Session& session, const BackwardArgs& args) {
    if (args.id == 0 && !args.enable_double_backprop) {
      PushMode(false, session);
      return;
    }
    std::vector<BackpropId> ids = session.graphs().backprop_ids().OpenAbove(args.id);
    if (!args.enable_double_backprop) ids.push_back(args.id);
    PushMode(false, ids);
  }
  ~PassMode() { PopMode(); }
  PassMode(const PassMode&) = delete;
};

absl::Status CheckState(const RecordedFunction& recorded, const PassState& state) {
  if (state.output_grads.size() != recorded.outputs.size() ||
      state.retained_inputs.size() != recorded.retained_inputs.size() ||
      state.retained_outputs.size() != recorded.retained_outputs.size()) {
    return ChainerxError("chxd calls a function that is not known here");
  }
  for (uint32_t target : state.targets) {
    if (target >= recorded.inputs.size()) {
      return ChainerxError("chxd asks for no input's gradient");
    }
  }
  return absl::OkStatus();
}

}  // namespace

BackwardPassDriver::BackwardPassDriver(Session* session, const BackwardArgs& args)
    : session_(*session), queue_(session->queue()), args_(args) {}

absl::Status BackwardPassDriver::Drive() {
  std::vector<ArrayPtr> grads;  // alive until the daemon has them
  for (uint64_t request = pass_;;) {
    CHX_ASSIGN_OR_RETURN(const PassState state, WaitForState(request));
    if (state.function == 0) return absl::OkStatus();
    absl::Status called = CallFunction(state, &grads);
    if (!called.ok()) {
      Abandon();
      return called;
    }
    request = Resume(grads);
  }
}

absl::StatusOr<PassState> BackwardPassDriver::WaitForState(uint64_t request) {
  const absl::StatusOr<std::string> answer = [&] {
    const Waiting waiting;
    return queue_.AnswerTo(request, true);
  }();
  if (Interruption::Is(answer.status())) Abandon();
  CHX_RETURN_IF_ERROR(answer.status());
  return DecodePassState(*answer);
}

uint64_t BackwardPassDriver::Resume(const std::vector<ArrayPtr>& grads) {
  command::ResumePass resume;
  resume.pass = pass_;
  for (const ArrayPtr& grad : grads) resume.grads.push_back(grad ? grad->handle : 0);
  return queue_.AppendRequest(std::move(resume));
}

void BackwardPassDriver::Abandon() {
  MutexLock lock(&queue_.mutex());
  if (!queue_.closed()) queue_.Append(command::AbandonPass{pass_});
}

FunctionCallArgs BackwardPassDriver::BindArguments(const RecordedFunction& recorded,
                                                   const PassState& state) {
  FunctionCallArgs call;
  command::EnterFunction enter;
  enter.pass = pass_;
  size_t next = 0;
  const auto bind = [&](bool present, const ArraySpec& spec, std::vector<ArrayPtr>* arrays) {
    enter.results.push_back(present ? queue_.AllocateHandle() : 0);
    arrays->emplace_back();
    if (!present) return;
    ArrayPtr array = session_.NewArray(enter.results.back(), spec);
    array->storage_unknown = true;
    array->graphs_unknown = true;
    GraphMirror::Learn(state.graphs[next++], array.get());
    arrays->back() = std::move(array);
  };
  for (size_t i = 0; i < state.output_grads.size(); ++i) {
    const ArraySpec& spec = recorded.outputs[i];
    bind(state.output_grads[i], ArraySpec(spec.dtype, spec.shape, spec.device), &call.output_grads);
  }
  for (size_t i = 0; i < state.retained_inputs.size(); ++i) {
    bind(state.retained_inputs[i], recorded.inputs[recorded.retained_inputs[i]],
         &call.retained_inputs);
  }
  for (size_t i = 0; i < state.retained_outputs.size(); ++i) {
    bind(state.retained_outputs[i], recorded.outputs[recorded.retained_outputs[i]],
         &call.retained_outputs);
  }
  call.targets.assign(state.targets.begin(), state.targets.end());
  MutexLock lock(&queue_.mutex());
  queue_.Append(std::move(enter));
  return call;
}

absl::Status BackwardPassDriver::CheckGrads(const RecordedFunction& recorded,
                                            const std::vector<int>& targets,
                                            const std::vector<ArrayPtr>& grads) const {
  if (grads.size() != targets.size()) {
    return GradientError("[backward] expects ", targets.size(), " gradients from a function, got ",
                         grads.size());
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    const ArrayBody* grad = grads[i].get();
    if (grad == nullptr) continue;
    CHX_RETURN_IF_ERROR(session_.CheckOwn("backward", grad));
    const ArraySpec& input = recorded.inputs[targets[i]];
    if (grad->spec.shape == input.shape && grad->spec.device == input.device) continue;
    return GradientError("[backward] expects a gradient of ", input.ToString(), " for input ",
                         targets[i], " of a function, got ", grad->spec.ToString());
  }
  return absl::OkStatus();
}

absl::Status BackwardPassDriver::CallFunction(const PassState& state,
                                              std::vector<ArrayPtr>* grads) {
  const std::shared_ptr<RecordedFunction> recorded = session_.functions().Find(state.function);
  if (recorded == nullptr) return ChainerxError("chxd calls a function that is not known here");
  CHX_RETURN_IF_ERROR(CheckState(*recorded, state));
  const FunctionCallArgs call = BindArguments(*recorded, state);
  grads->clear();
  const PassMode mode(session_, args_);
  CHX_RETURN_IF_ERROR(recorded->function->Backward(call, grads));
  return CheckGrads(*recorded, call.targets, *grads);
}

}  // namespace chx
