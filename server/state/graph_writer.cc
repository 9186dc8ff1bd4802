#include "server/state/graph_writer.h"

#include <algorithm>
#include <utility>

#include "server/state/array_messages.h"

namespace chx::server {
namespace {

bool IsBorrowed(const Array& array) {
  return array.valid() && array.buffer->lease() && !array.buffer->lease()->owner();
}

}  // namespace

void BufferTable::Add(const Array& array) {
  if (!array.valid()) return;
  const auto [it, inserted] =
      numbers_.try_emplace(array.buffer.get(), static_cast<uint32_t>(entries_.size() + 1));
  if (inserted) entries_.push_back({array.buffer, array.spec.device, 0});
  Entry& entry = entries_[it->second - 1];
  entry.bytes = std::max(entry.bytes, BytesTouched(array.spec).end);
}

void BufferTable::Fill(const Array& array, state::Array* message) const {
  if (!array.valid()) return;
  message->set_buffer(numbers_.at(array.buffer.get()));
  ToMessage(array.spec, message->mutable_spec());
}

void GraphTable::AddArrays(const Variable& variable) {
  buffers_.Add(variable.array);
  if (!variable.nodes.empty()) values_.push_back(variable);
}

void GraphTable::Add(const Variable& variable) {
  AddArrays(variable);
  while (!values_.empty()) {
    const Variable next = std::move(values_.back());
    values_.pop_back();
    for (const Ref<ArrayNode>& node : next.nodes) Visit({node.get(), nullptr});
  }
}

bool GraphTable::Known(const Item& item) const {
  return item.node != nullptr ? nodes_.contains(item.node) : ops_.contains(item.op);
}

void GraphTable::PushInputs(const Item& item, std::vector<Item>* todo) {
  if (item.node != nullptr) {
    if (item.node->creator) todo->push_back({nullptr, item.node->creator.get()});
    return;
  }
  for (const OpNode::Edge& edge : item.op->edges) {
    for (const Ref<ArrayNode>& node : edge.inputs) {
      if (node) todo->push_back({node.get(), nullptr});
    }
  }
  // Saved values are inputs, with nodes that the edges have too.
  for (const OpNode::InputRecord& input : item.op->inputs) {
    for (const Ref<ArrayNode>& node : input.value.nodes) todo->push_back({node.get(), nullptr});
  }
}

void GraphTable::Number(const Item& item) {
  order_.push_back(item);
  if (item.node != nullptr) {
    nodes_.emplace(item.node, static_cast<uint32_t>(nodes_.size() + 1));
    if (item.node->grad != nullptr && !LeavesOut(*item.node)) AddArrays(*item.node->grad);
    return;
  }
  ops_.emplace(item.op, static_cast<uint32_t>(ops_.size() + 1));
  for (const OpNode::InputRecord& input : item.op->inputs) buffers_.Add(input.value.array);
  for (const OpNode::Output& output : item.op->outputs) buffers_.Add(output.saved);
}

// Chains may be a million nodes long: no recursion.
void GraphTable::Visit(const Item& root) {
  std::vector<std::pair<Item, bool>> stack = {{root, false}};
  std::vector<Item> inputs;
  while (!stack.empty()) {
    auto& [item, expanded] = stack.back();
    if (expanded || Known(item)) {
      if (!Known(item)) Number(item);
      stack.pop_back();
      continue;
    }
    expanded = true;
    inputs.clear();
    PushInputs(item, &inputs);
    for (const Item& input : inputs) {
      if (!Known(input)) stack.emplace_back(input, false);
    }
  }
}

bool GraphTable::LeavesOut(const ArrayNode& node) const {
  return whole_ != nullptr && whole_->Borrows(*node.grad);
}

bool GraphTable::Borrows(const OpNode& op) const {
  const auto is_saved = [](const OpNode::InputRecord& input) {
    return IsBorrowed(input.value.array);
  };
  const auto is_output = [](const OpNode::Output& output) { return IsBorrowed(output.saved); };
  const auto depends = [this](const OpNode::Edge& edge) {
    return std::any_of(edge.inputs.begin(), edge.inputs.end(), [this](const Ref<ArrayNode>& node) {
      return node && borrowed_nodes_.contains(node.get());
    });
  };
  return std::any_of(op.inputs.begin(), op.inputs.end(), is_saved) ||
         std::any_of(op.outputs.begin(), op.outputs.end(), is_output) ||
         std::any_of(op.edges.begin(), op.edges.end(), depends);
}

// Inputs come before what is made of them.
bool GraphTable::FindBorrowed() {
  for (const Item& item : order_) {
    if (item.node == nullptr) {
      if (Borrows(*item.op)) borrowed_ops_.insert(item.op);
    } else if (borrowed_ops_.contains(item.node->creator.get())) {
      borrowed_nodes_.insert(item.node);
    }
  }
  return std::any_of(buffers_.entries().begin(), buffers_.entries().end(),
                     [](const BufferTable::Entry& entry) {
                       return entry.buffer->lease() && !entry.buffer->lease()->owner();
                     });
}

bool GraphTable::Borrows(const Variable& variable) const {
  return IsBorrowed(variable.array) || std::any_of(variable.nodes.begin(), variable.nodes.end(),
                                                   [this](const Ref<ArrayNode>& node) {
                                                     return borrowed_nodes_.contains(node.get());
                                                   });
}

void GraphTable::Fill(const Variable& variable, state::Variable* message) const {
  buffers_.Fill(variable.array, message->mutable_array());
  for (const Ref<ArrayNode>& node : variable.nodes) message->add_nodes(nodes_.at(node.get()));
}

void GraphTable::Fill(const OpNode& op, state::Operation* message) const {
  message->set_rank(op.rank);
  if (op.function == nullptr) {
    message->set_op(op.op.name);
    message->set_hash(op.op.SignatureHash());
  } else {
    message->set_function(op.function->number);
    for (int i : op.function->retained_inputs) {
      message->add_retained_inputs(static_cast<uint32_t>(i));
    }
    for (int i : op.function->retained_outputs) {
      message->add_retained_outputs(static_cast<uint32_t>(i));
    }
  }
  for (const AttrValue& attr : op.attrs) ToMessage(attr, message->add_attrs());
  for (const OpNode::InputRecord& input : op.inputs) {
    state::Input* const out = message->add_inputs();
    out->set_is_array(input.is_array);
    if (input.is_array) {
      ToMessage(input.spec, out->mutable_spec());
    } else {
      ToMessage(input.scalar, out->mutable_scalar());
    }
    out->set_saved(input.saved);
    if (input.saved) Fill(input.value, out->mutable_value());
  }
  for (const OpNode::Output& output : op.outputs) {
    state::Output* const out = message->add_outputs();
    ToMessage(output.spec, out->mutable_spec());
    buffers_.Fill(output.saved, out->mutable_saved());
  }
  for (const OpNode::Edge& edge : op.edges) {
    state::Edge* const out = message->add_edges();
    out->set_graph(edge.id);
    for (const Ref<ArrayNode>& node : edge.inputs) {
      out->add_inputs(node ? nodes_.at(node.get()) : 0);
    }
  }
}

void GraphTable::Items(absl::FunctionRef<void(state::GraphItem item)> give) const {
  for (const Item& item : order_) {
    state::GraphItem message;
    if (item.node != nullptr) {
      state::Node* const node = message.mutable_node();
      node->set_graph(item.node->id);
      ToMessage(item.node->spec, node->mutable_spec());
      node->set_grad_required(item.node->grad_required);
      if (item.node->creator) {
        node->set_creator(ops_.at(item.node->creator.get()));
        node->set_output(static_cast<uint32_t>(item.node->output_index));
      }
    } else {
      Fill(*item.op, message.mutable_operation());
    }
    give(std::move(message));
  }
}

void GraphTable::Gradients(absl::FunctionRef<void(state::Gradient gradient)> give) const {
  for (const Item& item : order_) {
    if (item.node == nullptr || item.node->grad == nullptr || LeavesOut(*item.node)) continue;
    state::Gradient gradient;
    gradient.set_node(nodes_.at(item.node));
    Fill(*item.node->grad, gradient.mutable_value());
    give(std::move(gradient));
  }
}

}  // namespace chx::server
