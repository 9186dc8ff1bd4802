#include "client/graph.h"

#include <atomic>

#include "absl/container/flat_hash_set.h"

namespace chx {

// One after another: a chain of a million operators must not recurse.
void MirrorOp::Destroy(const MirrorOp* op) {
  static thread_local std::vector<const MirrorOp*> pending;
  static thread_local bool draining = false;
  pending.push_back(op);
  if (draining) return;
  draining = true;
  while (!pending.empty()) {
    const MirrorOp* next = pending.back();
    pending.pop_back();
    delete next;
  }
  draining = false;
}

GraphBelow Below(absl::Span<GraphNode* const> outputs) {
  static std::atomic<uint64_t> walks{0};
  const uint64_t walk = ++walks;
  absl::flat_hash_set<GraphNode*> seen;
  GraphBelow below;
  std::vector<MirrorOp*> ops;
  const auto visit = [&](GraphNode* node) {
    if (!seen.insert(node).second) return;
    below.nodes.emplace_back(node);
    MirrorOp* op = node->creator.get();
    if (op == nullptr || op->visited == walk) return;
    op->visited = walk;
    ops.push_back(op);
  };
  for (GraphNode* node : outputs) visit(node);
  while (!ops.empty()) {
    MirrorOp* op = ops.back();
    ops.pop_back();
    below.opaque = below.opaque || op->opaque;
    below.calls = below.calls || op->function != nullptr;
    for (const Ref<GraphNode>& input : op->inputs) visit(input.get());
  }
  return below;
}

}  // namespace chx
