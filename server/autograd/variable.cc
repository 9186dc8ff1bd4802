#include "server/autograd/variable.h"

namespace chx::server {
namespace {

// Nodes that wait for their end: what a thread keeps room for.
constexpr size_t kMaxIdlePending = 1024;

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
  if (pending->capacity() > kMaxIdlePending) pending->shrink_to_fit();
}

}  // namespace

ArrayNode* Variable::NodeOf(BackpropId id) const {
  for (const Ref<ArrayNode>& node : nodes) {
    if (node->id == id) return node.get();
  }
  return nullptr;
}

ArrayNode::ArrayNode(BackpropId id, const ArraySpec& spec, GraphAccount* account)
    : id(id), spec(spec), account_(account) {
  account_->meter->Charge(Bytes());
}

ArrayNode::~ArrayNode() {
  account_->meter->Release(Bytes());
  Unchain();
}

int64_t ArrayNode::Bytes() {
  return static_cast<int64_t>(sizeof(ArrayNode) + sizeof(Variable)) + 2 * kAllocationBytes;
}

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

OpNode::OpNode(const OpDef& op, GraphAccount* account, int64_t bytes)
    : op(op), account_(account), bytes_(bytes) {
  account_->meter->Charge(bytes_);
  if (op.kind == OpKind::kCollective) ++account_->collectives;
}

OpNode::~OpNode() {
  account_->meter->Release(bytes_);
  if (op.kind == OpKind::kCollective) --account_->collectives;
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
  Ref<ArrayNode> node = MakeRef<ArrayNode>(edge->id, outputs[i].spec, account_);
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

}  // namespace chx::server
