// Graphs themselves: their ids, cutting them, and what clients ask about them.
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "proto/graph_state.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

constexpr absl::string_view kCut = "...\n";

// "%1 float32(2, 3) = multiply(%2, %2), requires grad" for each node, outputs first.
std::string DumpOf(ArrayNode* output, size_t max_bytes) {
  std::string text;
  absl::flat_hash_map<const ArrayNode*, size_t> numbers = {{output, 0}};
  std::vector<ArrayNode*> nodes = {output};
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ArrayNode& node = *nodes[i];
    std::string line = absl::StrCat("%", i, " ", node.spec.ToString());
    if (OpNode* op = node.creator.get()) {
      absl::StrAppend(&line, " = ", op->op.name, "(");
      const OpNode::Edge& edge = *op->EdgeOf(node.id);
      for (size_t j = 0; j < edge.inputs.size(); ++j) {
        ArrayNode* input = edge.inputs[j].get();
        absl::StrAppend(&line, j == 0 ? "" : ", ");
        if (input == nullptr) {
          absl::StrAppend(&line, "_");
          continue;
        }
        const auto [it, inserted] = numbers.try_emplace(input, nodes.size());
        if (inserted) nodes.push_back(input);
        absl::StrAppend(&line, "%", it->second);
      }
      absl::StrAppend(&line, ")");
      if (op->outputs.size() > 1) absl::StrAppend(&line, "[", node.output_index, "]");
    }
    absl::StrAppend(&line, node.grad_required ? ", requires grad" : "",
                    node.grad != nullptr ? ", has a gradient" : "",
                    node.handles == 0 ? ", released" : "", "\n");
    if (text.size() + line.size() + kCut.size() > max_bytes) {
      return text.size() + kCut.size() <= max_bytes ? absl::StrCat(text, kCut) : text;
    }
    absl::StrAppend(&text, line);
  }
  return text;
}

// `grad`: what the array's gradient was bound to when the client last saw it.
GraphState StateOf(Handle array, Handle grad, BackpropId id, HandleTable& handles) {
  GraphState state;
  const HandleTable::Entry* entry = handles.Find(array);
  if (entry == nullptr || entry->error != nullptr) {
    const bool absent = entry != nullptr && entry->error->absent_gradient;
    state.value = absent ? GraphState::Value::kNoGradient : GraphState::Value::kError;
    return state;
  }
  for (const Ref<ArrayNode>& node : entry->variable.nodes) {
    state.graphs.push_back(node->id);
    if (node->id != id || node->grad == nullptr) continue;
    state.has_grad = true;
    const HandleTable::Entry* seen = handles.Find(grad);
    state.same_grad = seen != nullptr && seen->variable.array.buffer == node->grad->array.buffer &&
                      seen->variable.array.spec.offset == node->grad->array.spec.offset;
  }
  return state;
}

}  // namespace

void RunCommand(const command::NewBackpropId& c, CommandContext& context) {
  context.FailUnlessOk(c, context.state.scopes.New(c.backprop_id), "");
}

void RunCommand(const command::ReleaseBackpropId& c, CommandContext& context) {
  SessionState& state = context.state;
  state.handles.MakeGraphs();  // they become members of the scope
  context.FailUnlessOk(c, state.scopes.Release(c.backprop_id, &state.handles), "");
}

void RunCommand(const command::Unchain& c, CommandContext& context) {
  const auto unchain = [&]() -> absl::Status {
    RootErrorPtr inherited;
    CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry,
                         context.state.handles.Use(c.handle, &inherited));
    if (inherited != nullptr) return absl::OkStatus();
    ArrayNode* node = entry->variable.NodeOf(c.backprop_id);
    if (node == nullptr) {
      return ChainerxError("[unchain] the array is not in the graph ", GraphName(c.backprop_id));
    }
    node->Unchain();
    return absl::OkStatus();
  };
  context.FailUnlessOk(c, unchain(), "");
}

void RunCommand(const command::QueryGraphs& c, CommandContext& context) {
  context.Answer(c, "graph_state", [&](SessionOutput::Value* value) -> absl::Status {
    if (c.handles.size() % 2 != 0) return ValueError("[graph_state] expects pairs of handles");
    // Each state takes a word at least: none is made that could not be sent.
    const auto max = static_cast<size_t>(context.state.limits.max_inline_bytes);
    const size_t count = c.handles.size() / 2;
    if (count <= max / sizeof(uint64_t)) {
      std::vector<GraphState> states;
      states.reserve(count);
      for (size_t i = 0; i < c.handles.size(); i += 2) {
        states.push_back(
            StateOf(c.handles[i], c.handles[i + 1], c.backprop_id, context.state.handles));
      }
      value->data = EncodeGraphStates(states);
      if (value->data.size() <= max) {
        return context.ChargeValue(static_cast<int64_t>(value->data.size()), value);
      }
    }
    return ValueError("[graph_state] expects fewer handles");
  });
}

void RunCommand(const command::DumpGraph& c, CommandContext& context) {
  context.Answer(c, "dump_graph", [&](SessionOutput::Value* value) -> absl::Status {
    CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry,
                         context.state.handles.Use(c.handle, &value->error));
    if (value->error != nullptr) return absl::OkStatus();
    ArrayNode* node = entry->variable.NodeOf(c.backprop_id);
    if (node == nullptr) {
      return ChainerxError("[dump_graph] the array is not in the graph ", GraphName(c.backprop_id));
    }
    const int64_t max_bytes = context.state.limits.max_inline_bytes;
    value->dtype = Dtype::kUint8;
    CHX_RETURN_IF_ERROR(context.ChargeValue(max_bytes, value));
    value->data = DumpOf(node, static_cast<size_t>(max_bytes));
    value->shape = Shape({static_cast<int64_t>(value->data.size())});
    return absl::OkStatus();
  });
}

}  // namespace chx::server
