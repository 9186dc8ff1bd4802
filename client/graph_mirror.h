// What a session knows of its graphs without asking the daemon.
#ifndef CHX_CLIENT_GRAPH_MIRROR_H_
#define CHX_CLIENT_GRAPH_MIRROR_H_

#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/backprop_ids.h"
#include "client/command_queue.h"
#include "client/graph.h"
#include "client/graph_queries.h"
#include "client/modes.h"

namespace chx {

// What one call adds to the mirror: an operator in each graph that records.
using MirrorOps = absl::InlinedVector<std::pair<BackpropId, Ref<MirrorOp>>, 1>;

// Adds operators to the mirror as they are called, and answers from it which graphs an array is in.
//
// Owned by a Session. Backprop ids are thread-safe; all else is used by one thread at a time for
// each array, as arrays themselves are.
class GraphMirror {
 public:
  GraphMirror(CommandQueue* queue, const Session* session)
      : queue_(*queue), session_(*session), queries_(queue) {}
  GraphMirror(const GraphMirror&) = delete;

  // Graphs besides the default one. `name` is for error messages.
  absl::StatusOr<BackpropId> NewBackpropId(std::string name = "");
  absl::Status ReleaseBackpropId(BackpropId id);
  BackpropIds& backprop_ids() { return backprop_ids_; }
  const BackpropIds& backprop_ids() const { return backprop_ids_; }
  GraphQueries& queries() { return queries_; }
  // Whether the calling thread's mode records in a graph of this session.
  bool Records(BackpropId id) const {
    return CurrentMode().Records(&session_, id) && backprop_ids_.IsOpen(id);
  }

  // Makes array->memberships valid. Waits if the array is a gradient that may be in a graph itself
  // and that nobody has looked at.
  absl::Status Resolve(ArrayBody* array) {
    return array->graphs_unknown ? AskGraphsOf(array) : absl::OkStatus();
  }
  // Makes a new array a leaf of the default graph, as the daemon has it.
  void AddLeaf(ArrayBody* array, bool has_grad);
  // Fills in the memberships of an array of which the daemon has told the state.
  static void Learn(const GraphState& state, ArrayBody* array);
  // The array's membership; an error of operator `op` if it is not in the graph.
  absl::StatusOr<GraphMembership*> MembershipOf(absl::string_view op, ArrayBody* array,
                                                BackpropId id);
  // Drops memberships in graphs that are closed.
  void ForgetClosedGraphs(ArrayBody* array);

  // Adds a call of an operator whose inputs are resolved.
  void Record(const OpDef& op, absl::Span<const Operand> inputs,
              absl::Span<const ArrayPtr> outputs);
  // The same in two steps, for calls that are no operators.
  void AddInput(const ArrayBody& input, MirrorOps* ops) const;
  void Connect(const MirrorOps& ops, absl::Span<ArrayBody* const> outputs);
  // An error if the operator writes to an array that is in a graph.
  absl::Status CheckWritten(const OpDef& op, absl::Span<const Operand> inputs) const;

  // Whether operators on the array are recorded by this thread; without an id: in any graph.
  absl::StatusOr<bool> IsBackpropRequired(ArrayBody* array, absl::optional<BackpropId> id);
  absl::StatusOr<bool> IsGradRequired(ArrayBody* array, BackpropId id);
  // Whether the graph knows how the array was made.
  absl::StatusOr<bool> IsChained(ArrayBody* array, BackpropId id);
  // Forgets how the array was made, in one graph: there it is a leaf from now on.
  absl::Status Unchain(ArrayBody* array, BackpropId id);
  // A text that shows the daemon's graph from which the array was computed. Waits.
  absl::StatusOr<std::string> Dump(ArrayBody* array, BackpropId id);

 private:
  absl::Status AskGraphsOf(ArrayBody* array);
  absl::Status CheckWritable(const ArrayBody& array) const;

  CommandQueue& queue_;
  const Session& session_;
  GraphQueries queries_;
  BackpropIds backprop_ids_;
};

}  // namespace chx

#endif  // CHX_CLIENT_GRAPH_MIRROR_H_
