#include "server/autograd/variable.h"

namespace chx {
namespace {

// Deletes nodes one after another: a chain of a million nodes must not recurse.
template <typename T>
void DeleteLater(const T* node, std::vector<const T*>* pending, bool* draining) {
  pending->push_back(node);
  if (*draining) return;
  *draining = true;
  while (!pending->empty()) {
    const T* next = pending->back();
    pending->pop_back();
    delete next;
  }
  *draining = false;
}

}  // namespace

ArrayNode* Variable::NodeOf(BackpropId id) const {
  for (const Ref<ArrayNode>& node : nodes) {
    if (node->id == id) return node.get();
  }
  return nullptr;
}

ArrayNode::~ArrayNode() { Unchain(); }

void ArrayNode::Unchain() {
  if (!creator) return;
  OpNode::Edge* edge = creator->EdgeOf(id);
  if (edge != nullptr && edge->outputs[output_index] == this) {
    edge->outputs[output_index] = nullptr;
  }
  creator = nullptr;
}

// An array node's deletion drops its creator, whose deletion is deferred: depth stays constant.
void ArrayNode::Destroy(const ArrayNode* node) { delete node; }

void OpNode::Destroy(const OpNode* node) {
  static thread_local std::vector<const OpNode*> pending;
  static thread_local bool draining = false;
  DeleteLater(node, &pending, &draining);
}

OpNode::~OpNode() {
  --account_->op_nodes;
  if (function == nullptr) return;
  account_->functions.erase(function->number);
  account_->freed_functions.push_back(function->number);
}

OpNode::Edge* OpNode::EdgeOf(BackpropId id) {
  for (Edge& edge : edges) {
    if (edge.id == id) return &edge;
  }
  return nullptr;
}

Ref<ArrayNode> OpNode::OutputNode(Edge* edge, int i) {
  if (edge->outputs[i] != nullptr) return Ref<ArrayNode>(edge->outputs[i]);
  Ref<ArrayNode> node = MakeRef<ArrayNode>(edge->id, outputs[i].spec);
  node->creator = Ref<OpNode>(this);
  node->output_index = i;
  edge->outputs[i] = node.get();
  return node;
}

Variable OpNode::OutputValue(int i) {
  Variable value;
  value.array = outputs[i].saved;
  for (Edge& edge : edges) value.nodes.push_back(OutputNode(&edge, i));
  return value;
}

}  // namespace chx
