#include "server/autograd/graph_template.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/autograd/apply.h"

namespace chx::server {

// Reads a graph.
class GraphTemplate::Reader {
 public:
  Reader(GraphTemplate* made, std::vector<Array>* values) : made_(*made), values_(*values) {}

  absl::Status Read(absl::Span<const Variable* const> outputs) {
    for (const Variable* output : outputs) {
      for (const Ref<ArrayNode>& node : output->nodes) {
        if (!node->creator) return absl::UnimplementedError("a result that is a leaf");
        CHX_RETURN_IF_ERROR(Visit(node->creator));
      }
    }
    for (const Variable* output : outputs) {
      CHX_ASSIGN_OR_RETURN(made_.outputs_.emplace_back(), NumbersOf(output->nodes));
    }
    CountReferences();
    return absl::OkStatus();
  }

 private:
  // Without recursion: chains may be long.
  absl::Status Visit(const Ref<OpNode>& root) {
    if (!root || ops_.contains(root.get())) return absl::OkStatus();
    std::vector<const OpNode*> found = {root.get()};
    absl::flat_hash_set<const OpNode*> seen = {root.get()};
    for (size_t i = 0; i < found.size(); ++i) {
      ForEachBelow(*found[i], [&](const OpNode* below) {
        if (!ops_.contains(below) && seen.insert(below).second) found.push_back(below);
      });
    }
    // Numbers first: what is saved may have been made by any of them.
    for (const OpNode* op : found) ops_.emplace(op, static_cast<int>(ops_.size()));
    for (const OpNode* op : found) CHX_RETURN_IF_ERROR(Add(*op));
    return absl::OkStatus();
  }

  template <typename Fn>
  static void ForEachBelow(const OpNode& op, Fn fn) {
    const auto each = [&fn](const Ref<ArrayNode>& node) {
      if (node && node->creator) fn(node->creator.get());
    };
    for (const OpNode::Edge& edge : op.edges) {
      for (const Ref<ArrayNode>& node : edge.inputs) each(node);
    }
    for (const OpNode::InputRecord& input : op.inputs) {
      for (const Ref<ArrayNode>& node : input.value.nodes) each(node);
    }
  }

  absl::Status Add(const OpNode& op) {
    if (op.function != nullptr) return absl::UnimplementedError("a function of the client");
    Op added;
    added.def = &op.op;
    added.attrs = op.attrs;
    added.rank = op.rank;
    added.first_value = static_cast<size_t>(num_values_);
    added.bytes = OpNodeBytes(op.inputs.size(), op.outputs.size(), op.edges.size(), op.attrs);
    for (const OpNode::InputRecord& input : op.inputs) {
      Input& read = added.inputs.emplace_back();
      read.record.is_array = input.is_array;
      read.record.spec = input.spec;
      read.record.scalar = input.scalar;
      read.record.saved = input.saved;
      if (!input.value.array.valid()) continue;
      read.value = AddValue(input.value.array);
      CHX_ASSIGN_OR_RETURN(read.nodes, NumbersOf(input.value.nodes));
    }
    for (const OpNode::Output& output : op.outputs) {
      added.outputs.push_back({output.spec, AddValue(output.saved)});
    }
    for (const OpNode::Edge& edge : op.edges) {
      Edge& read = added.edges.emplace_back();
      read.id = edge.id;
      for (const Ref<ArrayNode>& node : edge.inputs) {
        read.inputs.push_back(kNone);
        if (node) {
          CHX_ASSIGN_OR_RETURN(read.inputs.back(), NumberOf(*node));
        }
      }
    }
    added.num_values = static_cast<size_t>(num_values_) - added.first_value;
    made_.ops_.push_back(std::move(added));
    return absl::OkStatus();
  }

  // What keeps an op: outputs, and the ops above it.
  void CountReferences() {
    const auto refer = [this](int node, std::vector<int>* below) {
      const int op = node == kNone ? kNone : made_.nodes_[static_cast<size_t>(node)].op;
      if (op == kNone) return;
      ++made_.ops_[static_cast<size_t>(op)].references;
      if (below != nullptr) below->push_back(op);
    };
    for (const Numbers& output : made_.outputs_) {
      for (int node : output) refer(node, nullptr);
    }
    for (Op& op : made_.ops_) {
      for (const Input& input : op.inputs) {
        for (int node : input.nodes) refer(node, &op.below);
      }
      for (const Edge& edge : op.edges) {
        for (int node : edge.inputs) refer(node, &op.below);
      }
    }
    for (const Node& node : made_.nodes_) {
      if (node.op != kNone) made_.ops_[static_cast<size_t>(node.op)].charged += ArrayNode::Bytes();
    }
    for (Op& op : made_.ops_) {
      op.charged += op.bytes;
      made_.node_bytes_ += op.charged;
    }
  }

  int AddValue(const Array& array) {
    if (!array.valid()) return kNone;
    values_.push_back(array);
    return num_values_++;
  }

  absl::StatusOr<Numbers> NumbersOf(const Nodes& nodes) {
    Numbers numbers;
    for (const Ref<ArrayNode>& node : nodes) {
      CHX_ASSIGN_OR_RETURN(numbers.emplace_back(), NumberOf(*node));
    }
    return numbers;
  }

  absl::StatusOr<int> NumberOf(const ArrayNode& node) {
    const auto [it, is_new] = nodes_.emplace(&node, static_cast<int>(made_.nodes_.size()));
    if (!is_new) return it->second;
    Node added;
    added.id = node.id;
    added.spec = node.spec;
    added.grad_required = node.grad_required;
    if (!node.creator) {
      added.leaf = Ref<ArrayNode>(const_cast<ArrayNode*>(&node));
    } else {
      if (node.grad != nullptr) return absl::UnimplementedError("a gradient that is kept");
      added.op = ops_.at(node.creator.get());
      added.output = node.output_index;
    }
    made_.nodes_.push_back(std::move(added));
    return it->second;
  }

  GraphTemplate& made_;
  std::vector<Array>& values_;
  int num_values_ = 0;
  absl::flat_hash_map<const OpNode*, int> ops_;
  absl::flat_hash_map<const ArrayNode*, int> nodes_;
};

absl::StatusOr<GraphTemplate> GraphTemplate::Of(absl::Span<const Variable* const> outputs,
                                                std::vector<Array>* values) {
  GraphTemplate made;
  CHX_RETURN_IF_ERROR(Reader(&made, values).Read(outputs));
  return made;
}

int64_t GraphTemplate::Bytes() const {
  auto bytes = static_cast<int64_t>(sizeof(*this) + nodes_.size() * sizeof(Node));
  for (const Op& op : ops_) {
    bytes += static_cast<int64_t>(sizeof(op) + op.inputs.size() * sizeof(Input) +
                                  op.outputs.size() * sizeof(Output) +
                                  2 * op.below.size() * sizeof(int)) +
             op.bytes;
  }
  return bytes;
}

std::vector<GraphTemplate::Nodes> GraphTemplate::Make(absl::Span<const Array> values,
                                                      absl::Span<const int> references,
                                                      GraphAccount* account) const {
  const auto value_of = [&values](int number) {
    return number == kNone ? Array() : values[static_cast<size_t>(number)];
  };
  std::vector<Ref<OpNode>> ops;
  for (const Op& op : ops_) {
    if (references[ops.size()] == 0) {
      ops.emplace_back();
      continue;
    }
    Ref<OpNode> node = MakeRef<OpNode>(*op.def, account, op.bytes);
    node->attrs = op.attrs;
    node->rank = op.rank;
    for (const Output& output : op.outputs) {
      node->outputs.push_back({output.spec, value_of(output.value)});
    }
    for (const Edge& edge : op.edges) {
      node->edges.push_back({edge.id, {}, {}});
      node->edges.back().outputs.resize(op.outputs.size(), nullptr);
    }
    ops.push_back(std::move(node));
  }
  Nodes nodes;
  for (const Node& node : nodes_) {
    if (node.op == kNone) {
      nodes.push_back(node.leaf);
      continue;
    }
    if (!ops[static_cast<size_t>(node.op)]) {
      nodes.emplace_back();
      continue;
    }
    OpNode& creator = *ops[static_cast<size_t>(node.op)];
    nodes.push_back(creator.OutputNode(creator.EdgeOf(node.id), node.output));
    nodes.back()->grad_required = node.grad_required;
  }
  const auto nodes_of = [&nodes](const Numbers& numbers) {
    Nodes list;
    for (int number : numbers) list.push_back(nodes[static_cast<size_t>(number)]);
    return list;
  };
  for (size_t i = 0; i < ops_.size(); ++i) {
    if (!ops[i]) continue;
    for (const Input& input : ops_[i].inputs) {
      OpNode::InputRecord record = input.record;
      record.value.array = value_of(input.value);
      record.value.nodes = nodes_of(input.nodes);
      ops[i]->inputs.push_back(std::move(record));
    }
    for (size_t j = 0; j < ops_[i].edges.size(); ++j) {
      for (int number : ops_[i].edges[j].inputs) {
        ops[i]->edges[j].inputs.push_back(number == kNone ? nullptr
                                                          : nodes[static_cast<size_t>(number)]);
      }
    }
  }
  std::vector<Nodes> outputs;
  for (const Numbers& numbers : outputs_) outputs.push_back(nodes_of(numbers));
  return outputs;
}

DeferredGraph::DeferredGraph(std::shared_ptr<const GraphTemplate> made_by,
                             std::vector<Array> values, GraphAccount* account)
    : template_(std::move(made_by)),
      values_(std::move(values)),
      handles_(template_->outputs_.size()),
      charged_(template_->NodeBytes()),
      account_(account) {
  references_.reserve(template_->ops_.size());
  for (const GraphTemplate::Op& op : template_->ops_) references_.push_back(op.references);
}

DeferredGraph::~DeferredGraph() { account_->meter->Release(charged_); }

void DeferredGraph::Forget(size_t output) {
  if (template_ == nullptr) return;
  handles_[output] = 0;
  std::vector<int> gone;
  const auto forget = [&](int op) {
    if (--references_[static_cast<size_t>(op)] == 0) gone.push_back(op);
  };
  for (int node : template_->outputs_[output]) {
    forget(template_->nodes_[static_cast<size_t>(node)].op);  // no output is a leaf
  }
  while (!gone.empty()) {
    const GraphTemplate::Op& op = template_->ops_[static_cast<size_t>(gone.back())];
    gone.pop_back();
    for (size_t i = 0; i < op.num_values; ++i) values_[op.first_value + i] = Array();
    account_->meter->Release(op.charged);
    charged_ -= op.charged;
    for (int below : op.below) forget(below);
  }
}

std::vector<GraphTemplate::Nodes> DeferredGraph::Make() {
  const std::shared_ptr<const GraphTemplate> made_by = std::exchange(template_, nullptr);
  account_->meter->Release(std::exchange(charged_, 0));
  return made_by->Make(values_, references_, account_);
}

}  // namespace chx::server
