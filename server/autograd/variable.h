// Arrays and the nodes that stand for them in the session's graphs.
//
// A graph is made of array nodes and op nodes, as in ChainerX: an op node is one application of a
// differentiable operator, an array node one of its float inputs or outputs, in the graph of one
// backprop id. An array may be in several graphs. Nodes live as long as something refers to them
// from above: handles hold array nodes, array nodes their creator, op nodes their inputs. So
// backward may run any number of times, and dropping the last handle frees the graph.
//
// Everything here belongs to one session and is used under its lock.
#ifndef CHX_SERVER_AUTOGRAD_VARIABLE_H_
#define CHX_SERVER_AUTOGRAD_VARIABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "base/ref.h"
#include "ops/op_def.h"
#include "proto/ids.h"
#include "server/engine/array.h"
#include "server/engine/memory_budget.h"

namespace chx::server {

class ArrayNode;
class OpNode;

struct Variable {
  Array array;
  absl::InlinedVector<Ref<ArrayNode>, 1> nodes;  // at most one per backprop id

  ArrayNode* NodeOf(BackpropId id) const;
  // What the list of nodes has in the heap, at most.
  int64_t HeapBytes() const {
    return nodes.size() <= 1 ? 0 : static_cast<int64_t>(2 * nodes.size() * sizeof(nodes[0]));
  }
};

// An array may be in so many graphs, so that what is kept for each of them stays small.
inline constexpr size_t kMaxGraphsOfArray = 32;

// What a session's graphs share.
struct GraphAccount {
  explicit GraphAccount(MemoryMeter* meter_in) : meter(meter_in) {}

  // Nodes charge themselves; whoever makes them has reserved the room.
  MemoryMeter* const meter;
  absl::flat_hash_set<uint64_t> functions;  // those that op nodes stand for
  std::vector<uint64_t> freed_functions;    // that the client has not been told of
  int64_t collectives = 0;                  // op nodes whose gradients wait for other sessions
};

// Of an op node that stands for a function which the client computed: it has the gradient, too.
struct ClientFunction {
  uint64_t number = 0;  // chosen by the client
  // What the gradient needs, in the client's order.
  std::vector<int> retained_inputs;
  std::vector<int> retained_outputs;
};

class ArrayNode : public RefCounted<ArrayNode> {
 public:
  ArrayNode(BackpropId id, const ArraySpec& spec, GraphAccount* account);
  ~ArrayNode();
  // What one takes, with its gradient's Variable.
  static int64_t Bytes();
  static void Destroy(const ArrayNode* node);
  // Makes the node a leaf. What it was made from is freed unless something else refers to it.
  void Unchain();

  const BackpropId id;
  const ArraySpec spec;
  Ref<OpNode> creator;  // null: a leaf
  int output_index = 0;
  bool grad_required = false;      // its gradient is kept by backward
  std::unique_ptr<Variable> grad;  // null: none
  // Handles of the session that hold this node. Without one nobody can ask for the gradient; and a
  // gradient that is itself in the graph would keep its own array's node alive for ever.
  int handles = 0;

 private:
  GraphAccount* const account_;
};

class OpNode : public RefCounted<OpNode> {
 public:
  // What one input was; its value, if the gradient needs it.
  struct InputRecord {
    bool is_array = false;
    ArraySpec spec;
    Scalar scalar;
    bool saved = false;
    Variable value;  // if `saved`
  };
  struct Output {
    ArraySpec spec;
    Array saved;  // if the gradient needs it; its nodes are found through `edges`
  };
  // The node's inputs and outputs in one graph.
  struct Edge {
    BackpropId id;
    absl::InlinedVector<Ref<ArrayNode>, 3> inputs;  // null: not connected
    absl::InlinedVector<ArrayNode*, 1> outputs;     // null: gone
  };

  // `bytes`: what it takes with all that it will own, but for array nodes.
  OpNode(const OpDef& op, GraphAccount* account, int64_t bytes);
  ~OpNode();
  static void Destroy(const OpNode* node);

  Edge* EdgeOf(BackpropId id);
  // The node of output i in one graph; made anew if it is gone.
  Ref<ArrayNode> OutputNode(Edge* edge, int i);
  // A saved output with its nodes in all graphs.
  Variable OutputValue(int i);

  const OpDef& op;
  Attrs attrs;
  int64_t rank = 0;  // greater than that of every op node below it
  absl::InlinedVector<InputRecord, 3> inputs;
  absl::InlinedVector<Output, 1> outputs;
  absl::InlinedVector<Edge, 1> edges;
  std::unique_ptr<ClientFunction> function;  // null: `op` computed this

 private:
  GraphAccount* const account_;
  const int64_t bytes_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_VARIABLE_H_
