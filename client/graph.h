// Nodes of the client's copy of its graphs: which arrays are connected to which, and nothing more.
// With it GraphMirror answers "does this need backprop", "is there a gradient" and refuses in-place
// operators without a round trip. It follows the same rules as the daemon's graph
// (server/autograd).
//
// Like arrays, nodes are used by one thread at a time.
#ifndef CHX_CLIENT_GRAPH_H_
#define CHX_CLIENT_GRAPH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "proto/ids.h"

namespace chx {

class ArrayBody;
class MirrorOp;

// An array in the graph of one backprop id. The gradient itself belongs to the array: a gradient
// may be in the graph too, and would otherwise keep its own array's node alive.
class GraphNode : public RefCounted<GraphNode> {
 public:
  explicit GraphNode(BackpropId id) : id(id) {}

  const BackpropId id;
  bool grad_required = false;
  ArrayBody* owner = nullptr;  // null: the array is gone
  Ref<MirrorOp> creator;       // null: a leaf
};

// One application of an operator in one graph.
class MirrorOp : public RefCounted<MirrorOp> {
 public:
  static void Destroy(const MirrorOp* op);

  absl::InlinedVector<Ref<GraphNode>, 3> inputs;
  // Made by a backward pass: only the daemon knows what it depends on.
  bool opaque = false;
  // Set if the client made the outputs itself. One for the function's operators in all graphs: when
  // it goes, nothing here refers to the function any more.
  std::shared_ptr<const uint64_t> function;
  uint64_t visited = 0;  // number of the last traversal that visited it
};

// What a backward pass from some outputs visits.
struct Reachable {
  std::vector<Ref<GraphNode>> nodes;  // these outputs included
  bool opaque = false;                // there may be more of them
  bool calls = false;                 // there are functions of the client
};
// Walks the graphs from the outputs towards their inputs.
Reachable FindReachable(absl::Span<GraphNode* const> outputs);

}  // namespace chx

#endif  // CHX_CLIENT_GRAPH_H_
