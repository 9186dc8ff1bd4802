#include "server/session/handle_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"

namespace chx::server {

HandleTable::Entry* HandleTable::Find(Handle handle) {
  Entry* const entry = FindValue(handle);
  if (entry == nullptr) return nullptr;
  if (entry->graph != nullptr) MakeGraph(std::shared_ptr<DeferredGraph>(entry->graph));
  return entry;
}

HandleTable::Entry* HandleTable::FindValue(Handle handle) {
  const auto it = entries_.find(handle);
  return it == entries_.end() ? nullptr : &it->second;
}

void HandleTable::MakeGraph(const std::shared_ptr<DeferredGraph>& graph) {
  const std::vector<GraphTemplate::Nodes> nodes = graph->Make();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto it = entries_.find(graph->handles()[i]);
    if (it == entries_.end() || it->second.graph != graph) continue;
    Variable& variable = it->second.variable;
    variable.nodes = nodes[i];
    meter_->Charge(variable.HeapBytes());
    it->second.graph = nullptr;
    NoteNewNodes(graph->handles()[i], variable, 0);
  }
}

void HandleTable::MakeGraphs() {
  std::vector<std::shared_ptr<DeferredGraph>> graphs;
  for (const auto& [handle, entry] : entries_) {
    if (entry.graph != nullptr) graphs.push_back(entry.graph);
  }
  absl::flat_hash_set<const DeferredGraph*> made;
  for (const std::shared_ptr<DeferredGraph>& graph : graphs) {
    if (made.insert(graph.get()).second) MakeGraph(graph);
  }
}

absl::StatusOr<HandleTable::Entry*> HandleTable::Use(Handle handle, RootErrorPtr* inherited) {
  CHX_ASSIGN_OR_RETURN(Entry * entry, UseValue(handle, inherited));
  if (entry->graph != nullptr) MakeGraph(std::shared_ptr<DeferredGraph>(entry->graph));
  return entry;
}

absl::StatusOr<HandleTable::Entry*> HandleTable::UseValue(Handle handle, RootErrorPtr* inherited) {
  Entry* entry = FindValue(handle);
  if (entry == nullptr && lost() && handle != 0) entry = &lost_;
  if (entry == nullptr) {
    return ValueError("expects a handle of this session, got ", handle);
  }
  if (entry->error != nullptr && *inherited == nullptr) *inherited = entry->error;
  return entry;
}

absl::StatusOr<std::vector<Variable*>> HandleTable::UseAll(absl::Span<const Handle> handles,
                                                           RootErrorPtr* inherited, bool optional) {
  std::vector<Variable*> variables;
  variables.reserve(handles.size());
  for (Handle handle : handles) {
    if (handle == 0 && optional) {
      variables.push_back(nullptr);
      continue;
    }
    CHX_ASSIGN_OR_RETURN(Entry * entry, Use(handle, inherited));
    variables.push_back(&entry->variable);
  }
  return variables;
}

absl::StatusOr<Variable*> HandleTable::Read(Handle handle) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(Entry * entry, UseValue(handle, &inherited));
  if (inherited == nullptr) return &entry->variable;
  inherited->read = true;
  return inherited->status;
}

absl::Status HandleTable::CheckNew(absl::Span<const Handle> handles) const {
  if (entries_.size() + handles.size() > max_handles_) {
    return MemoryError("the session holds ", entries_.size(), " handles, which is the limit");
  }
  if (!entries_.HasRoom(handles.size())) {
    return meter_->Exhausted(static_cast<int64_t>(handles.size() * sizeof(Entry)));
  }
  const auto in_use = [](Handle handle) {
    return ValueError("expects a new handle for each output, got ", handle,
                      handle == 0 ? "" : ", which is in use");
  };
  for (Handle handle : handles) {
    if (handle == 0 || entries_.contains(handle)) return in_use(handle);
  }
  if (handles.size() < 2) return absl::OkStatus();
  absl::InlinedVector<Handle, 8> sorted(handles.begin(), handles.end());
  std::sort(sorted.begin(), sorted.end());
  const auto repeated = std::adjacent_find(sorted.begin(), sorted.end());
  return repeated == sorted.end() ? absl::OkStatus() : in_use(*repeated);
}

void HandleTable::Bind(Handle handle, Variable variable) {
  NoteNewNodes(handle, variable, 0);
  meter_->Charge(variable.HeapBytes());
  entries_[handle].variable = std::move(variable);
}

void HandleTable::Bind(Handle handle, Array array, std::shared_ptr<DeferredGraph> graph,
                       size_t output) {
  Entry& entry = entries_[handle];
  entry.variable.array = std::move(array);
  if (graph != nullptr) graph->SetHandle(output, handle);
  entry.graph = std::move(graph);
  entry.output = output;
}

void HandleTable::NoteNewNodes(Handle handle, const Variable& variable, size_t nodes_before) {
  for (size_t i = nodes_before; i < variable.nodes.size(); ++i) {
    ArrayNode& node = *variable.nodes[i];
    ++node.handles;
    if (node.id != 0) scopes_->NoteMember(node.id, handle, *this);
  }
}

void HandleTable::BindError(Handle handle, const RootErrorPtr& error) {
  if (handle == 0) return;
  if (entries_.size() >= max_handles_ || !entries_.Reserve(1)) {
    LostError();
    return;
  }
  const auto inserted = entries_.try_emplace(handle);
  if (inserted.second) inserted.first->second.error = error;
}

void HandleTable::Poison(Handle handle, const RootErrorPtr& error) {
  Entry* entry = Find(handle);
  if (entry == nullptr || entry->error != nullptr) return;
  Drop(entry);
  entry->error = error;
}

bool HandleTable::Release(Handle handle) {
  auto it = entries_.find(handle);
  if (it == entries_.end()) return false;
  if (it->second.graph != nullptr) it->second.graph->Forget(it->second.output);
  Drop(&it->second);
  entries_.erase(it);
  return true;
}

void HandleTable::Drop(Entry* entry) {
  // A moved-from InlinedVector keeps its elements, which would be null.
  const Variable dropped = std::exchange(entry->variable, Variable());
  entry->graph = nullptr;
  meter_->Release(dropped.HeapBytes());
  for (const Ref<ArrayNode>& node : dropped.nodes) {
    if (--node->handles == 0) node->grad = nullptr;
  }
}

void HandleTable::LeaveGraph(Handle handle, BackpropId id) {
  Entry* entry = Find(handle);
  if (entry == nullptr) return;
  auto& nodes = entry->variable.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i]->id != id) continue;
    if (--nodes[i]->handles == 0) nodes[i]->grad = nullptr;
    const int64_t before = entry->variable.HeapBytes();
    nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(i));
    meter_->Release(before - entry->variable.HeapBytes());
    return;
  }
}

void HandleTable::Clear() {
  for (auto& [handle, entry] : entries_) Drop(&entry);
  entries_.clear();
}

void HandleTable::Keep(const absl::flat_hash_set<Handle>& kept) {
  std::vector<Handle> others;
  for (const auto& [handle, entry] : entries_) {
    if (!kept.contains(handle)) others.push_back(handle);
  }
  for (Handle handle : others) Release(handle);
}

const RootErrorPtr& HandleTable::LostError() {
  if (lost_.error == nullptr) {
    lost_.error = std::make_shared<RootError>();
    lost_.error->status = MemoryError(
        "out of memory: the session or the daemon was at its limit, and there was no room to "
        "record what failed then");
  }
  return lost_.error;
}

}  // namespace chx::server
