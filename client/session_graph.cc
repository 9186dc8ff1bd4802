// Graphs of a Session as such: their ids, what only the daemon knows of them, cutting and printing.
#include <algorithm>
#include <utility>

#include "client/session.h"
#include "client/waiting.h"

namespace chx {

void Session::SetWaitHooks(void* (*begin)(), void (*end)(void* state), bool (*interrupted)()) {
  Waiting::SetHooks(begin, end);
  Interruption::SetHook(interrupted);
}

absl::StatusOr<BackpropId> Session::NewBackpropId(std::string name) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  Command command;
  command.kind = CommandKind::kNewBackpropId;
  // Numbers reach the daemon in their order.
  MutexLock lock(&mutex_);
  command.backprop_id = backprop_ids_.New(std::move(name));
  Write(command);
  return command.backprop_id;
}

absl::Status Session::ReleaseBackpropId(BackpropId id) {
  CHX_RETURN_IF_ERROR(backprop_ids_.Release(id));
  if (!CheckUsable().ok()) return absl::OkStatus();  // it went with the session
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kReleaseBackpropId;
  command.backprop_id = id;
  Write(command);
  return absl::OkStatus();
}

void Session::AddMirrorInput(const ArrayBody& input, MirrorOps* ops) const {
  for (const ArrayBody::Place& place : input.places) {
    const BackpropId id = place.node->id;
    if (!Records(id)) continue;
    auto it =
        std::find_if(ops->begin(), ops->end(), [id](const auto& op) { return op.first == id; });
    if (it == ops->end()) it = ops->insert(ops->end(), {id, MakeRef<MirrorOp>()});
    it->second->inputs.push_back(place.node);
  }
}

void Session::ConnectMirror(const MirrorOps& ops, absl::Span<ArrayBody* const> outputs) {
  for (ArrayBody* output : outputs) {
    if (output == nullptr || !IsFloat(output->spec.dtype)) continue;
    for (const auto& [id, op] : ops) output->Connect(id, op);
  }
  if (ops.size() < 2) return;
  absl::InlinedVector<BackpropId, 2> ids;
  for (const auto& [id, op] : ops) ids.push_back(id);
  backprop_ids_.Connect(ids);
}

absl::StatusOr<std::string> Session::Ask(Command* question) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  const Waiting waiting;
  {
    MutexLock lock(&mutex_);
    question->request_id = next_request_++;
    Write(*question);
  }
  return AnswerTo(question->request_id, true);
}

absl::StatusOr<std::vector<GraphState>> Session::AskStates(absl::Span<const Handle> pairs,
                                                           BackpropId id) {
  constexpr size_t kAtOnce = 128;  // answers are small values
  std::vector<GraphState> states;
  for (; !pairs.empty(); pairs.remove_prefix(std::min(kAtOnce, pairs.size()))) {
    const absl::Span<const Handle> part = pairs.subspan(0, kAtOnce);
    Command question;
    question.kind = CommandKind::kGraphState;
    question.backprop_id = id;
    question.handles.assign(part.begin(), part.end());
    CHX_ASSIGN_OR_RETURN(const std::string answer, Ask(&question));
    CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> some, DecodeGraphStates(answer));
    if (2 * some.size() != part.size()) {
      return ChainerxError("chxd sent ", some.size(), " graph states for ", part.size() / 2);
    }
    states.insert(states.end(), some.begin(), some.end());
  }
  return states;
}

absl::StatusOr<GraphState> Session::StateInDaemon(const ArrayBody& array, BackpropId id) {
  const Handle pair[] = {array.handle, 0};
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, AskStates(pair, id));
  return states[0];
}

absl::Status Session::AskGraphsOf(ArrayBody* array) {
  const Handle pair[] = {array->handle, 0};
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, AskStates(pair, 0));
  LearnGraphs(states[0], array);
  return absl::OkStatus();
}

void Session::LearnGraphs(const GraphState& state, ArrayBody* array) {
  if (!array->graphs_unknown) return;  // another thread has asked, too
  array->graphs_unknown = false;
  for (BackpropId id : state.graphs) {
    Ref<MirrorOp> creator = MakeRef<MirrorOp>();
    creator->opaque = true;
    array->Connect(id, std::move(creator));
  }
}

absl::Status Session::AskGrad(ArrayBody* array, ArrayBody::Place* place) {
  const BackpropId id = place->node->id;
  const uint64_t doubts = backprop_ids_.Doubts(id);
  // Held, as is the array by the caller: another thread may set it meanwhile.
  const ArrayPtr seen = place->grad;
  const Handle pair[] = {array->handle, seen ? seen->handle : 0};
  CHX_ASSIGN_OR_RETURN(const std::vector<GraphState> states, AskStates(pair, id));
  place = array->PlaceIn(id);
  if (place == nullptr || place->doubts == doubts) return absl::OkStatus();
  place->doubts = doubts;
  place->has_grad = states[0].has_grad;
  if (place->has_grad) place->node->grad_required = true;
  if (states[0].same_grad && place->grad == seen) return absl::OkStatus();
  place->grad = nullptr;
  place->grad_graphs_unknown = true;
  return absl::OkStatus();
}

absl::StatusOr<bool> Session::IsBackpropRequired(ArrayBody* array, absl::optional<BackpropId> id) {
  if (id.has_value()) CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(*id));
  if (!CurrentMode().RecordsAny(this)) return false;  // whatever graphs it is in
  CHX_RETURN_IF_ERROR(Resolve(array));
  for (const ArrayBody::Place& place : array->places) {
    const BackpropId graph = place.node->id;
    if (id.value_or(graph) == graph && Records(graph)) return true;
  }
  return false;
}

absl::StatusOr<bool> Session::IsGradRequired(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  CHX_RETURN_IF_ERROR(Resolve(array));
  const ArrayBody::Place* place = array->PlaceIn(id);
  return place != nullptr && place->node->grad_required;
}

absl::StatusOr<bool> Session::IsChained(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  CHX_RETURN_IF_ERROR(Resolve(array));
  const ArrayBody::Place* place = array->PlaceIn(id);
  return place != nullptr && place->node->creator;
}

absl::Status Session::Unchain(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckUsable());
  CHX_ASSIGN_OR_RETURN(ArrayBody::Place * place, PlaceOf("unchain", array, id));
  if (!place->node->creator) return absl::OkStatus();
  const Ref<MirrorOp> creator = std::move(place->node->creator);  // gone after the lock
  MutexLock lock(&mutex_);
  Command command;
  command.kind = CommandKind::kUnchain;
  command.handle = array->handle;
  command.backprop_id = id;
  Write(command);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Session::DumpGraph(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(PlaceOf("dump_graph", array, id).status());
  Command question;
  question.kind = CommandKind::kDumpGraph;
  question.handle = array->handle;
  question.backprop_id = id;
  return Ask(&question);
}

absl::StatusOr<ArrayBody::Place*> Session::PlaceOf(absl::string_view op, ArrayBody* array,
                                                   BackpropId id) {
  CHX_RETURN_IF_ERROR(CheckOwn(op, array));
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  CHX_RETURN_IF_ERROR(Resolve(array));
  ArrayBody::Place* place = array->PlaceIn(id);
  if (place != nullptr) return place;
  return ChainerxError("[", op, "] the array is not in the graph of backprop ID '",
                       backprop_ids_.Name(id), "': call require_grad() first");
}

}  // namespace chx
