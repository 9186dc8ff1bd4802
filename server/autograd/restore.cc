#include "server/autograd/restore.h"

#include <algorithm>
#include <utility>

#include "ops/error.h"
#include "ops/infer.h"
#include "server/autograd/apply.h"

namespace chx::server {
namespace {

absl::Status Unsound(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("a graph could not have been recorded: ", why));
}

bool SameType(const ArraySpec& a, const ArraySpec& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.device == b.device;
}

absl::Status CheckInferred(const OpNodeParts& parts) {
  const OpDef& op = *parts.op;
  if (op.gradient == nullptr || op.in_place || op.written_inputs != 0) {
    return Unsound("an operator has no gradient");
  }
  absl::InlinedVector<SpecOperand, 4> specs;
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    const OpNode::InputRecord& input = parts.inputs[i];
    const bool optional =
        op.inputs.empty() || op.inputs[std::min(i, op.inputs.size() - 1)].optional;
    if (input.is_array) {
      specs.push_back(SpecOperand(&input.spec));
    } else if (optional) {  // a record does not tell an absent one from a number
      specs.push_back(SpecOperand());
    } else {
      specs.push_back(SpecOperand(input.scalar));
    }
  }
  const DeviceId device = parts.outputs.empty() ? DeviceId{0} : parts.outputs[0].spec.device;
  InferResult inferred;
  CHX_RETURN_IF_ERROR(InferOp({op, specs, parts.attrs, device}, &inferred));
  if (inferred.outputs.size() != parts.outputs.size()) return Unsound("a number of outputs");
  for (size_t i = 0; i < parts.outputs.size(); ++i) {
    if (!SameType(inferred.outputs[i], parts.outputs[i].spec)) return Unsound("an output's shape");
    const size_t declared = std::min(i, op.outputs.size() - 1);
    const bool saved = op.SavesOutput(declared, parts.attrs);
    if (saved != parts.outputs[i].saved.valid()) return Unsound("an output's value");
  }
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    const bool saved = parts.inputs[i].is_array && op.SavesInput(i, parts.attrs);
    if (saved != parts.inputs[i].saved) return Unsound("an input's value");
  }
  return absl::OkStatus();
}

absl::Status CheckFunction(const OpNodeParts& parts, const GraphAccount& account) {
  const ClientFunction& function = *parts.function;
  if (account.functions.contains(function.number)) return Unsound("two functions of one number");
  for (int i : function.retained_inputs) {
    if (i < 0 || static_cast<size_t>(i) >= parts.inputs.size())
      return Unsound("a function's input");
    if (parts.inputs[i].is_array && !parts.inputs[i].saved) return Unsound("a function's input");
  }
  for (int i : function.retained_outputs) {
    if (i < 0 || static_cast<size_t>(i) >= parts.outputs.size()) {
      return Unsound("a function's output");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckEdge(const OpNodeParts& parts, const OpNode::Edge& edge) {
  if (edge.inputs.size() != parts.inputs.size()) return Unsound("an edge's inputs");
  for (size_t i = 0; i < edge.inputs.size(); ++i) {
    const ArrayNode* node = edge.inputs[i].get();
    if (node == nullptr) continue;
    if (node->id != edge.id || !parts.inputs[i].is_array ||
        !SameType(node->spec, parts.inputs[i].spec)) {
      return Unsound("an edge's input");
    }
    if (node->creator && node->creator->rank >= parts.rank) return Unsound("a rank");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Ref<OpNode>> RestoreOpNode(OpNodeParts parts, GraphAccount* account) {
  if (parts.edges.empty() || parts.edges.size() > kMaxGraphsOfArray) return Unsound("its graphs");
  if (parts.outputs.empty() || parts.rank < 0) return Unsound("an operator without outputs");
  if (parts.op != nullptr) {
    CHX_RETURN_IF_ERROR(CheckInferred(parts));
  } else {
    CHX_RETURN_IF_ERROR(CheckFunction(parts, *account));
  }
  for (size_t i = 0; i < parts.edges.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (parts.edges[j].id == parts.edges[i].id) return Unsound("a graph that is there twice");
    }
    CHX_RETURN_IF_ERROR(CheckEdge(parts, parts.edges[i]));
  }
  for (const OpNode::InputRecord& input : parts.inputs) {
    if (input.saved && !SameType(input.value.array.spec, input.spec)) return Unsound("a value");
  }
  for (const OpNode::Output& output : parts.outputs) {
    if (output.saved.valid() && !SameType(output.saved.spec, output.spec))
      return Unsound("a value");
  }
  const int64_t bytes =
      OpNodeBytes(parts.inputs.size(), parts.outputs.size(), parts.edges.size(), parts.attrs);
  if (!account->meter->Reserve(bytes)) return account->meter->Exhausted(bytes);
  const OpDef& op = parts.op != nullptr ? *parts.op : FunctionOp();
  Ref<OpNode> node = MakeRef<OpNode>(op, account, bytes);
  node->attrs = std::move(parts.attrs);
  node->rank = parts.rank;
  for (auto& input : parts.inputs) node->inputs.push_back(std::move(input));
  for (auto& edge : parts.edges) {
    edge.outputs.resize(parts.outputs.size(), nullptr);
    node->edges.push_back(std::move(edge));
  }
  for (auto& output : parts.outputs) node->outputs.push_back(std::move(output));
  if (parts.function != nullptr) {
    account->functions.insert(parts.function->number);
    node->function = std::move(parts.function);
  }
  return node;
}

absl::StatusOr<Ref<ArrayNode>> RestoreArrayNode(BackpropId id, const ArraySpec& spec,
                                                OpNode* creator, uint32_t output,
                                                GraphAccount* account) {
  if (!IsFloat(spec.dtype)) return Unsound("a node that is no float array");
  if (!account->meter->Reserve(ArrayNode::Bytes())) {
    return account->meter->Exhausted(ArrayNode::Bytes());
  }
  if (creator == nullptr) return MakeRef<ArrayNode>(id, spec, account);
  OpNode::Edge* const edge = creator->EdgeOf(id);
  if (edge == nullptr || output >= creator->outputs.size() || edge->outputs[output] != nullptr ||
      !SameType(creator->outputs[output].spec, spec)) {
    return Unsound("an array's maker");
  }
  return creator->OutputNode(edge, static_cast<int>(output));
}

}  // namespace chx::server
