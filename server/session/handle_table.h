// What the handles of a session stand for: arrays, or the errors in their place.
#ifndef CHX_SERVER_SESSION_HANDLE_TABLE_H_
#define CHX_SERVER_SESSION_HANDLE_TABLE_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/ids.h"
#include "server/autograd/graph_template.h"
#include "server/autograd/variable.h"
#include "server/engine/memory_budget.h"
#include "server/session/charged_table.h"
#include "server/session/graph_scopes.h"
#include "server/session/session_types.h"

namespace chx::server {

// Belongs to a session and is used under its lock. Pointers to entries are valid until the next
// Reserve or Release.
class HandleTable {
 public:
  struct Entry {
    Variable variable;
    RootErrorPtr error;  // set: `variable` is empty
    // Set: the array's nodes are not made yet. Who uses the array gets it with its nodes.
    std::shared_ptr<DeferredGraph> graph;
    size_t output = 0;  // of the graph
  };

  HandleTable(MemoryMeter* meter, GraphScopes* scopes, int64_t max_handles)
      : meter_(meter), scopes_(scopes), max_handles_(static_cast<size_t>(max_handles)) {}
  ~HandleTable() { Clear(); }

  size_t size() const { return entries_.size(); }
  bool contains(Handle handle) const { return entries_.contains(handle); }
  // Null if nothing is bound to the handle.
  Entry* Find(Handle handle);
  // The entry, which must exist; the first error among all that are used is kept in *inherited.
  absl::StatusOr<Entry*> Use(Handle handle, RootErrorPtr* inherited);
  // The same, for who asks nothing about graphs: one that is deferred stays so.
  absl::StatusOr<Entry*> UseValue(Handle handle, RootErrorPtr* inherited);
  // The arrays, with errors as above. A null pointer stands for handle 0 if `optional`.
  absl::StatusOr<std::vector<Variable*>> UseAll(absl::Span<const Handle> handles,
                                                RootErrorPtr* inherited, bool optional = false);
  // The array, without its graph, for the client to see; its root error, which counts as read,
  // comes as its Status.
  absl::StatusOr<Variable*> Read(Handle handle);

  // Makes room for new handles. False: there is no memory for it, and CheckNew will fail.
  bool Reserve(size_t more) { return entries_.HasRoom(more) || entries_.Reserve(more); }
  // An error if one of the handles cannot be bound: it is 0, in use or twice there, or there is no
  // room.
  absl::Status CheckNew(absl::Span<const Handle> handles) const;
  // Binds a handle that CheckNew has passed.
  void Bind(Handle handle, Variable variable);
  // The same for an array in a graph that is made when somebody uses the array.
  void Bind(Handle handle, Array array, std::shared_ptr<DeferredGraph> graph, size_t output);
  // Makes all graphs that are deferred.
  void MakeGraphs();
  // Binds the handle, unless it is 0 or in use, which keeps its value.
  void BindError(Handle handle, const RootErrorPtr& error);
  // Replaces an array by an error: it has lost its value.
  void Poison(Handle handle, const RootErrorPtr& error);
  // The array under the handle has got nodes since it had `nodes_before` of them.
  void NoteNewNodes(Handle handle, const Variable& variable, size_t nodes_before);
  // False if nothing is bound to the handle.
  bool Release(Handle handle);
  void LeaveGraph(Handle handle, BackpropId id);
  void Clear();
  // Releases all but these.
  void Keep(const absl::flat_hash_set<Handle>& kept);
  // Calls fn(handle, entry) for each, in no order. Graphs may be deferred.
  template <typename Fn>
  void ForEach(Fn fn) {
    for (auto& [handle, entry] : entries_) fn(handle, entry);
  }

  // Stands for what could not be bound or recorded, as there was no memory.
  const RootErrorPtr& LostError();
  bool lost() const { return lost_.error != nullptr; }

 private:
  Entry* FindValue(Handle handle);
  void Drop(Entry* entry);
  void MakeGraph(const std::shared_ptr<DeferredGraph>& graph);

  MemoryMeter* const meter_;
  GraphScopes* const scopes_;
  const size_t max_handles_;
  ChargedTable<Handle, Entry> entries_{meter_};
  Entry lost_;  // without an error, nothing is lost
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_HANDLE_TABLE_H_
