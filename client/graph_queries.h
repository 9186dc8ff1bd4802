// Questions about graphs that only the daemon can answer. Each waits for an answer.
#ifndef CHX_CLIENT_GRAPH_QUERIES_H_
#define CHX_CLIENT_GRAPH_QUERIES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/command_queue.h"
#include "proto/graph_state.h"

namespace chx {

// Owned by a GraphMirror. Thread-safe: it has no state of its own. No lock may be held by the
// caller, as a signal's handler may run in the wait and use the session.
class GraphQueries {
 public:
  explicit GraphQueries(CommandQueue* queue) : queue_(*queue) {}

  // The states of arrays in a graph. `pairs`: for each array its handle, then the handle of its
  // gradient when it was last seen, or 0.
  absl::StatusOr<std::vector<GraphState>> States(absl::Span<const Handle> pairs, BackpropId id);
  absl::StatusOr<GraphState> StateOf(const ArrayBody& array, BackpropId id);
  // A text that shows the graph from which the array was computed.
  absl::StatusOr<std::string> Dump(const ArrayBody& array, BackpropId id);

 private:
  CommandQueue& queue_;
};

}  // namespace chx

#endif  // CHX_CLIENT_GRAPH_QUERIES_H_
