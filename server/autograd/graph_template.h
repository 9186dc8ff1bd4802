// The graph of a step that runs again and again, without its values: so that nobody has to build
// it each time, only to throw it away.
#ifndef CHX_SERVER_AUTOGRAD_GRAPH_TEMPLATE_H_
#define CHX_SERVER_AUTOGRAD_GRAPH_TEMPLATE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/autograd/variable.h"

namespace chx::server {

// What op nodes and array nodes were, and how they hang together. Leaves are those that there were
// before the step.
class GraphTemplate {
 public:
  using Nodes = absl::InlinedVector<Ref<ArrayNode>, 1>;

  // Of the graph above `outputs`. An Unimplemented error if it cannot be made again: a function of
  // the client is in it, or an array on the way has kept its gradient. The arrays that the graph
  // has saved are appended to *values.
  static absl::StatusOr<GraphTemplate> Of(absl::Span<const Variable* const> outputs,
                                          std::vector<Array>* values);

  bool empty() const { return nodes_.empty(); }
  bool IsInGraph(size_t output) const { return !outputs_[output].empty(); }
  // What a graph's nodes charge.
  int64_t NodeBytes() const { return node_bytes_; }
  // What this takes itself, about.
  int64_t Bytes() const;
  // The nodes of each output, of a new graph with these values. Ops without references are left
  // out, and null stands for their nodes. The meter has room for the others.
  std::vector<Nodes> Make(absl::Span<const Array> values, absl::Span<const int> references,
                          GraphAccount* account) const;

 private:
  static constexpr int kNone = -1;
  using Numbers = absl::InlinedVector<int, 1>;
  struct Node {
    BackpropId id = 0;
    ArraySpec spec;
    int op = kNone;  // that made it
    int output = 0;
    bool grad_required = false;
    Ref<ArrayNode> leaf;  // with kNone: the node itself
  };
  struct Input {
    OpNode::InputRecord record;  // without a value
    int value = kNone;
    Numbers nodes;  // of the value
  };
  struct Output {
    ArraySpec spec;
    int value = kNone;
  };
  struct Edge {
    BackpropId id = 0;
    std::vector<int> inputs;
  };
  struct Op {
    const OpDef* def = nullptr;
    Attrs attrs;
    int64_t rank = 0;
    int64_t bytes = 0;    // of the node
    int64_t charged = 0;  // with the array nodes that it has made
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    std::vector<Edge> edges;
    size_t first_value = 0;  // of those that it has saved, which follow one another
    size_t num_values = 0;
    std::vector<int> below;  // ops that it keeps, as often as it refers to them
    int references = 0;      // of outputs and other ops
  };
  class Reader;
  friend class DeferredGraph;

  std::vector<Op> ops_;
  std::vector<Node> nodes_;
  std::vector<Numbers> outputs_;
  int64_t node_bytes_ = 0;
};

// A graph that is made when somebody asks for it.
class DeferredGraph {
 public:
  // NodeBytes() of the template are charged, and given back here.
  DeferredGraph(std::shared_ptr<const GraphTemplate> made_by, std::vector<Array> values,
                GraphAccount* account);
  ~DeferredGraph();
  DeferredGraph(const DeferredGraph&) = delete;

  // Once.
  std::vector<GraphTemplate::Nodes> Make();

  // What an output is bound to.
  void SetHandle(size_t output, Handle handle) { handles_[output] = handle; }
  absl::Span<const Handle> handles() const { return handles_; }
  // An output is gone, or has not been bound: so is what no other one needs. Once for each.
  void Forget(size_t output);

 private:
  std::shared_ptr<const GraphTemplate> template_;  // null: it is made
  std::vector<Array> values_;
  std::vector<Handle> handles_;  // by output; 0: it is not there
  std::vector<int> references_;  // by op
  int64_t charged_;
  GraphAccount* const account_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_GRAPH_TEMPLATE_H_
