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

Reachable FindReachable(absl::Span<GraphNode* const> outputs) {
  static std::atomic<uint64_t> traversals{0};
  const uint64_t traversal = ++traversals;
  absl::flat_hash_set<GraphNode*> seen;
  Reachable reachable;
  std::vector<MirrorOp*> ops;
  const auto visit = [&](GraphNode* node) {
    if (!seen.insert(node).second) return;
    reachable.nodes.emplace_back(node);
    MirrorOp* op = node->creator.get();
    if (op == nullptr || op->visited == traversal) return;
    op->visited = traversal;
    ops.push_back(op);
  };
  for (GraphNode* node : outputs) visit(node);
  while (!ops.empty()) {
    MirrorOp* op = ops.back();
    ops.pop_back();
    reachable.opaque = reachable.opaque || op->opaque;
    reachable.calls = reachable.calls || op->function != nullptr;
    for (const Ref<GraphNode>& input : op->inputs) visit(input.get());
  }
  return reachable;
}

}  // namespace chx
