#include "client/graph_mirror.h"

#include <algorithm>
#include <cstddef>

#include "client/session.h"

namespace chx {

absl::StatusOr<BackpropId> GraphMirror::NewBackpropId(std::string name) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  // Numbers reach the daemon in their order.
  MutexLock lock(&queue_.mutex());
  const BackpropId id = backprop_ids_.New(std::move(name));
  queue_.Append(command::NewBackpropId{id});
  return id;
}

absl::Status GraphMirror::ReleaseBackpropId(BackpropId id) {
  CHX_RETURN_IF_ERROR(backprop_ids_.Release(id));
  if (!queue_.CheckUsable().ok()) return absl::OkStatus();  // it went with the session
  MutexLock lock(&queue_.mutex());
  queue_.Append(command::ReleaseBackpropId{id});
  return absl::OkStatus();
}

absl::Status GraphMirror::AskGraphsOf(ArrayBody* array) {
  CHX_ASSIGN_OR_RETURN(const GraphState state, queries_.StateOf(*array, 0));
  Learn(state, array);
  return absl::OkStatus();
}

void GraphMirror::AddLeaf(ArrayBody* array, bool has_grad) {
  array->Connect(0, nullptr);
  GraphMembership* const membership = array->MembershipIn(0);
  membership->node->grad_required = true;
  membership->has_grad = has_grad;
  membership->grad_version = backprop_ids_.GradVersion(0);
}

void GraphMirror::Learn(const GraphState& state, ArrayBody* array) {
  if (!array->graphs_unknown) return;  // another thread has asked, too
  array->graphs_unknown = false;
  for (BackpropId id : state.graphs) {
    Ref<MirrorOp> creator = MakeRef<MirrorOp>();
    creator->opaque = true;
    array->Connect(id, std::move(creator));
  }
}

absl::StatusOr<GraphMembership*> GraphMirror::MembershipOf(absl::string_view op, ArrayBody* array,
                                                           BackpropId id) {
  CHX_RETURN_IF_ERROR(session_.CheckOwn(op, array));
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  CHX_RETURN_IF_ERROR(Resolve(array));
  GraphMembership* membership = array->MembershipIn(id);
  if (membership != nullptr) return membership;
  return ChainerxError("[", op, "] the array is not in the graph of backprop ID '",
                       backprop_ids_.Name(id), "': call require_grad() first");
}

// An array that joins a new graph in each iteration would have no end of them.
void GraphMirror::ForgetClosedGraphs(ArrayBody* array) {
  for (size_t i = array->memberships.size(); i-- > 0;) {
    GraphMembership& membership = array->memberships[i];
    if (backprop_ids_.IsOpen(membership.node->id)) continue;
    membership.node->owner = nullptr;
    array->memberships.erase(array->memberships.begin() + static_cast<ptrdiff_t>(i));
  }
}

void GraphMirror::Record(const OpDef& op, absl::Span<const Operand> inputs,
                         absl::Span<const ArrayPtr> outputs) {
  MirrorOps ops;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArrayBody* input = inputs[i].array();
    if (input != nullptr && !op.IsConstantInput(i)) AddInput(*input, &ops);
  }
  if (ops.empty()) return;
  absl::InlinedVector<ArrayBody*, 1> bodies;
  for (const ArrayPtr& output : outputs) bodies.push_back(output.get());
  Connect(ops, bodies);
}

void GraphMirror::AddInput(const ArrayBody& input, MirrorOps* ops) const {
  for (const GraphMembership& membership : input.memberships) {
    const BackpropId id = membership.node->id;
    if (!Records(id)) continue;
    auto it =
        std::find_if(ops->begin(), ops->end(), [id](const auto& op) { return op.first == id; });
    if (it == ops->end()) it = ops->insert(ops->end(), {id, MakeRef<MirrorOp>()});
    it->second->inputs.push_back(membership.node);
  }
}

void GraphMirror::Connect(const MirrorOps& ops, absl::Span<ArrayBody* const> outputs) {
  for (ArrayBody* output : outputs) {
    if (output == nullptr || !IsFloat(output->spec.dtype)) continue;
    for (const auto& [id, op] : ops) output->Connect(id, op);
  }
  if (ops.size() < 2) return;
  absl::InlinedVector<BackpropId, 2> ids;
  for (const auto& [id, op] : ops) ids.push_back(id);
  backprop_ids_.Connect(ids);
}

// Graphs that are closed don't count.
absl::Status GraphMirror::CheckWritable(const ArrayBody& array) const {
  for (const GraphMembership& membership : array.memberships) {
    if (!backprop_ids_.IsOpen(membership.node->id)) continue;
    return ChainerxError("In-place assignment to output array requiring grad is not allowed.");
  }
  return absl::OkStatus();
}

absl::Status GraphMirror::CheckWritten(const OpDef& op, absl::Span<const Operand> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_array() || !op.IsWritten(i, inputs.size())) continue;
    CHX_RETURN_IF_ERROR(CheckWritable(*inputs[i].array()));
  }
  if (!op.in_place) return absl::OkStatus();
  for (const Operand& input : inputs) {
    if (!input.is_array()) continue;
    for (const GraphMembership& membership : input.array()->memberships) {
      if (Records(membership.node->id)) {
        return ChainerxError(
            "In-place assignment that involves input arrays requiring grad is not allowed.");
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> GraphMirror::IsBackpropRequired(ArrayBody* array,
                                                     absl::optional<BackpropId> id) {
  if (id.has_value()) CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(*id));
  if (!CurrentMode().RecordsAny(&session_)) return false;  // whatever graphs it is in
  CHX_RETURN_IF_ERROR(Resolve(array));
  for (const GraphMembership& membership : array->memberships) {
    const BackpropId graph = membership.node->id;
    if (id.value_or(graph) == graph && Records(graph)) return true;
  }
  return false;
}

absl::StatusOr<bool> GraphMirror::IsGradRequired(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  CHX_RETURN_IF_ERROR(Resolve(array));
  const GraphMembership* membership = array->MembershipIn(id);
  return membership != nullptr && membership->node->grad_required;
}

absl::StatusOr<bool> GraphMirror::IsChained(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(backprop_ids_.CheckOpen(id));
  CHX_RETURN_IF_ERROR(Resolve(array));
  const GraphMembership* membership = array->MembershipIn(id);
  return membership != nullptr && membership->node->creator;
}

absl::Status GraphMirror::Unchain(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(queue_.CheckUsable());
  CHX_ASSIGN_OR_RETURN(GraphMembership * membership, MembershipOf("unchain", array, id));
  if (!membership->node->creator) return absl::OkStatus();
  const Ref<MirrorOp> creator = std::move(membership->node->creator);  // freed after the lock
  MutexLock lock(&queue_.mutex());
  queue_.Append(command::Unchain{array->handle, id});
  return absl::OkStatus();
}

absl::StatusOr<std::string> GraphMirror::Dump(ArrayBody* array, BackpropId id) {
  CHX_RETURN_IF_ERROR(MembershipOf("dump_graph", array, id).status());
  return queries_.Dump(*array, id);
}

}  // namespace chx
