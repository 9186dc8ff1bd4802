// The graphs of a session besides the default one, and the handles that are in them.
#ifndef CHX_SERVER_SESSION_GRAPH_SCOPES_H_
#define CHX_SERVER_SESSION_GRAPH_SCOPES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/ids.h"
#include "server/engine/memory_budget.h"
#include "server/session/charged_table.h"

namespace chx::server {

class HandleTable;

// "'<default>'" or "number 3".
std::string GraphName(BackpropId id);

// Belongs to a session and is used under its lock.
class GraphScopes {
 public:
  explicit GraphScopes(MemoryMeter* meter) : meter_(meter) {}

  absl::Status New(BackpropId id);
  // No backward pass can enter this graph any more: arrays that stay do not keep it.
  absl::Status Release(BackpropId id, HandleTable* handles);
  // An error if the graph was never opened or is released.
  absl::Status Check(BackpropId id) const;
  // The open ones, in no order.
  std::vector<BackpropId> Ids();
  void Clear();
  // The array under the handle has got a node in the graph.
  void NoteMember(BackpropId id, Handle handle, const HandleTable& handles);

 private:
  MemoryMeter* const meter_;
  // With the handles in each graph, and some that are released.
  ChargedTable<BackpropId, std::vector<Handle>> members_{meter_};
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_GRAPH_SCOPES_H_
