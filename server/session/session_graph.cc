// The commands about graphs themselves: their ids, cutting them, and what clients ask about them.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/session/session.h"

namespace chx {
namespace {

constexpr size_t kMaxBackpropIds = 4096;
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

}  // namespace

absl::Status Session::NewBackpropId(BackpropId id) {
  if (backprop_ids_.size() >= kMaxBackpropIds) {
    return MemoryError("[backprop_scope] expects at most ", kMaxBackpropIds, " open scopes");
  }
  if (!backprop_ids_.Reserve(1)) {
    return MemoryError("[backprop_scope] ", meter_.Exhausted(sizeof(Entry)).message());
  }
  if (id == 0 || !backprop_ids_.try_emplace(id).second) {
    return ChainerxError("[backprop_scope] expects a new backprop id, got ", id);
  }
  return absl::OkStatus();
}

absl::Status Session::ReleaseBackpropId(BackpropId id) {
  auto it = backprop_ids_.find(id);
  if (it == backprop_ids_.end()) {
    return ChainerxError("[backprop_scope] expects an open backprop id, got ", id);
  }
  // Nobody can walk this graph any more: arrays that stay must not keep it.
  for (Handle handle : it->second) {
    Entry* entry = Find(handle);
    if (entry == nullptr) continue;
    auto& nodes = entry->variable.nodes;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i]->id != id) continue;
      if (--nodes[i]->handles == 0) nodes[i]->grad = nullptr;
      const int64_t before = entry->variable.HeapBytes();
      nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(i));
      meter_.Release(before - entry->variable.HeapBytes());
      break;
    }
  }
  meter_.Release(static_cast<int64_t>(it->second.capacity() * sizeof(Handle)));
  backprop_ids_.erase(it);
  return absl::OkStatus();
}

void Session::NoteMember(BackpropId id, Handle handle) {
  auto it = backprop_ids_.find(id);
  if (it == backprop_ids_.end()) return;
  std::vector<Handle>& members = it->second;
  // Those that are gone would make a long-lived graph's list endless.
  if (members.size() > 2 * entries_.size() + 64) {
    const auto is_gone = [this](Handle member) { return Find(member) == nullptr; };
    members.erase(std::remove_if(members.begin(), members.end(), is_gone), members.end());
  }
  const size_t before = members.capacity();
  members.push_back(handle);
  meter_.Charge(static_cast<int64_t>((members.capacity() - before) * sizeof(Handle)));
}

absl::Status Session::Unchain(const Command& command) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &inherited));
  if (inherited != nullptr) return absl::OkStatus();
  ArrayNode* node = entry->variable.NodeOf(command.backprop_id);
  if (node == nullptr) {
    return ChainerxError("[unchain] the array is not in the graph number ", command.backprop_id);
  }
  node->Unchain();
  return absl::OkStatus();
}

GraphState Session::StateOf(Handle array, Handle grad, BackpropId id) {
  GraphState state;
  const Entry* entry = Find(array);
  if (entry == nullptr || entry->error != nullptr) {
    const bool absent = entry != nullptr && entry->error->absent_gradient;
    state.value = absent ? GraphState::Value::kNoGradient : GraphState::Value::kError;
    return state;
  }
  for (const Ref<ArrayNode>& node : entry->variable.nodes) {
    state.graphs.push_back(node->id);
    if (node->id != id || node->grad == nullptr) continue;
    state.has_grad = true;
    const Entry* seen = Find(grad);
    state.same_grad = seen != nullptr && seen->variable.array.buffer == node->grad->array.buffer &&
                      seen->variable.array.spec.offset == node->grad->array.spec.offset;
  }
  return state;
}

void Session::AskGraphState(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const auto ask = [&]() -> absl::Status {
    if (command.handles.size() % 2 != 0) {
      return ValueError("[graph_state] expects pairs of handles");
    }
    // Each state takes a word at least: none is made that could not be sent.
    const auto max = static_cast<size_t>(limits_.max_inline_bytes);
    const size_t count = command.handles.size() / 2;
    if (count <= max / sizeof(uint64_t)) {
      std::vector<GraphState> states;
      states.reserve(count);
      for (size_t i = 0; i < command.handles.size(); i += 2) {
        states.push_back(StateOf(command.handles[i], command.handles[i + 1], command.backprop_id));
      }
      value.data = EncodeGraphStates(states);
      if (value.data.size() <= max) {
        return ChargeValue(static_cast<int64_t>(value.data.size()), &value);
      }
    }
    return ValueError("[graph_state] expects fewer handles");
  };
  absl::Status status = ask();
  if (!status.ok()) {
    std::string().swap(value.data);  // an assignment would keep its memory
    value.error = NewRootError(command, std::move(status), "graph_state", "");
    value.error->read = true;
  }
  output->values.push_back(std::move(value));
}

void Session::DumpGraph(const Command& command, SessionOutput* output) {
  SessionOutput::Value value;
  value.request_id = command.request_id;
  const auto dump = [&]() -> absl::Status {
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(command.handle, &value.error));
    if (value.error != nullptr) return absl::OkStatus();
    ArrayNode* node = entry->variable.NodeOf(command.backprop_id);
    if (node == nullptr) {
      return ChainerxError("[dump_graph] the array is not in the graph number ",
                           command.backprop_id);
    }
    value.dtype = Dtype::kUint8;
    CHX_RETURN_IF_ERROR(ChargeValue(limits_.max_inline_bytes, &value));
    value.data = DumpOf(node, static_cast<size_t>(limits_.max_inline_bytes));
    value.shape = Shape({static_cast<int64_t>(value.data.size())});
    return absl::OkStatus();
  };
  absl::Status status = dump();
  if (!status.ok()) value.error = NewRootError(command, std::move(status), "dump_graph", "");
  if (value.error != nullptr) value.error->read = true;
  output->values.push_back(std::move(value));
}

}  // namespace chx
