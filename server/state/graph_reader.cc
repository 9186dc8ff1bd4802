#include "server/state/graph_reader.h"

#include <utility>

#include "ops/error.h"
#include "ops/registry.h"
#include "server/autograd/restore.h"
#include "server/session/commands.h"
#include "server/state/array_messages.h"

namespace chx::server {
namespace {

bool SameType(const ArraySpec& a, const ArraySpec& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.device == b.device;
}

// Of the file's lists, which are as long as it says they are.
constexpr int kMostInputs = 1 << 16;

}  // namespace

absl::StatusOr<Array> GraphReader::ArrayFrom(const state::Array& message, bool optional) const {
  if (message.buffer() == 0 && optional) return Array();
  if (message.buffer() == 0 || message.buffer() > buffers_.size()) {
    return Unreadable("an array without memory");
  }
  const Block& block = buffers_[message.buffer() - 1];
  Array array;
  CHX_ASSIGN_OR_RETURN(array.spec, FromMessage(message.spec(), session_.executor.devices().size()));
  array.buffer = block.buffer;
  // Nothing is read by the stride of a dimension of one element, nor of an array without any: views
  // leave there what they like.
  if (array.spec.size() == 0) array.spec.offset = 0;
  ArraySpec touched = array.spec;
  for (int i = 0; i < touched.ndim(); ++i) {
    if (touched.shape[i] < 2 || touched.size() == 0) touched.strides[i] = 0;
  }
  if (array.spec.device != block.device || !LiesWithin(touched, block.buffer->bytes())) {
    return Unreadable("an array beyond its memory");
  }
  return array;
}

absl::StatusOr<Ref<ArrayNode>> GraphReader::NodeOf(uint32_t number) const {
  if (number == 0 || number > nodes_.size()) return Unreadable("an array's place in a graph");
  return nodes_[number - 1];
}

absl::StatusOr<Variable> GraphReader::VariableFrom(const state::Variable& message) const {
  Variable variable;
  CHX_ASSIGN_OR_RETURN(variable.array, ArrayFrom(message.array()));
  if (message.nodes_size() > static_cast<int>(kMaxGraphsOfArray)) {
    return Unreadable("an array in too many graphs");
  }
  for (uint32_t number : message.nodes()) {
    CHX_ASSIGN_OR_RETURN(Ref<ArrayNode> node, NodeOf(number));
    if (variable.NodeOf(node->id) != nullptr || !SameType(node->spec, variable.array.spec)) {
      return Unreadable("an array that is not its node's");
    }
    variable.nodes.push_back(std::move(node));
  }
  return variable;
}

absl::Status GraphReader::Add(const state::GraphItem& item) {
  if (item.has_node()) return AddNode(item.node());
  if (item.has_operation()) return AddOperation(item.operation());
  return Unreadable("a graph's item of an unknown kind");
}

absl::Status GraphReader::AddNode(const state::Node& node) {
  CHX_ASSIGN_OR_RETURN(const ArraySpec spec,
                       FromMessage(node.spec(), session_.executor.devices().size()));
  if (node.creator() > ops_.size()) return Unreadable("a node before what made it");
  OpNode* const creator = node.creator() == 0 ? nullptr : ops_[node.creator() - 1].get();
  CHX_ASSIGN_OR_RETURN(Ref<ArrayNode> made, RestoreArrayNode(node.graph(), spec, creator,
                                                             node.output(), &session_.graph));
  made->grad_required = node.grad_required();
  nodes_.push_back(std::move(made));
  return absl::OkStatus();
}

absl::Status GraphReader::AddOperation(const state::Operation& operation) {
  if (operation.inputs_size() > kMostInputs || operation.outputs_size() > kMostInputs) {
    return Unreadable("an operation of too many arrays");
  }
  const int devices = session_.executor.devices().size();
  OpNodeParts parts;
  parts.rank = operation.rank();
  if (operation.op().empty()) {
    parts.function = std::make_unique<ClientFunction>();
    parts.function->number = operation.function();
    for (uint32_t i : operation.retained_inputs()) {
      parts.function->retained_inputs.push_back(static_cast<int>(i));
    }
    for (uint32_t i : operation.retained_outputs()) {
      parts.function->retained_outputs.push_back(static_cast<int>(i));
    }
  } else {
    parts.op = OpRegistry::Global().Find(operation.op());
    if (parts.op == nullptr || parts.op->SignatureHash() != operation.hash()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the session's graph has an operator that this daemon does not know in that form"));
    }
  }
  for (const state::Value& attr : operation.attrs()) {
    CHX_ASSIGN_OR_RETURN(AttrValue value, AttrFrom(attr));
    parts.attrs.push_back(std::move(value));
  }
  for (const state::Input& input : operation.inputs()) {
    OpNode::InputRecord record;
    record.is_array = input.is_array();
    if (record.is_array) {
      CHX_ASSIGN_OR_RETURN(record.spec, FromMessage(input.spec(), devices));
    } else {
      CHX_ASSIGN_OR_RETURN(record.scalar, ScalarFrom(input.scalar()));
    }
    record.saved = input.saved();
    if (record.saved) {
      CHX_ASSIGN_OR_RETURN(record.value, VariableFrom(input.value()));
    }
    parts.inputs.push_back(std::move(record));
  }
  for (const state::Output& output : operation.outputs()) {
    OpNode::Output made;
    CHX_ASSIGN_OR_RETURN(made.spec, FromMessage(output.spec(), devices));
    CHX_ASSIGN_OR_RETURN(made.saved, ArrayFrom(output.saved(), /*optional=*/true));
    parts.outputs.push_back(std::move(made));
  }
  for (const state::Edge& edge : operation.edges()) {
    OpNode::Edge made;
    made.id = edge.graph();
    for (uint32_t number : edge.inputs()) {
      Ref<ArrayNode> node;
      if (number != 0) {
        CHX_ASSIGN_OR_RETURN(node, NodeOf(number));
      }
      made.inputs.push_back(std::move(node));
    }
    parts.edges.push_back(std::move(made));
  }
  CHX_ASSIGN_OR_RETURN(Ref<OpNode> node, RestoreOpNode(std::move(parts), &session_.graph));
  ops_.push_back(std::move(node));
  return absl::OkStatus();
}

void GraphReader::DropUnreachable() {
  for (const Ref<ArrayNode>& node : nodes_) {
    if (node->handles == 0) node->grad = nullptr;
  }
}

absl::Status GraphReader::Add(const state::Gradient& gradient) {
  CHX_ASSIGN_OR_RETURN(const Ref<ArrayNode> node, NodeOf(gradient.node()));
  CHX_ASSIGN_OR_RETURN(Variable value, VariableFrom(gradient.value()));
  if (!SameType(value.array.spec, node->spec)) return Unreadable("a gradient of another shape");
  node->grad = std::make_unique<Variable>(std::move(value));
  return absl::OkStatus();
}

}  // namespace chx::server
