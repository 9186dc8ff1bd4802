// Gradients of a session's arrays.
#ifndef CHX_CLIENT_GRADIENTS_H_
#define CHX_CLIENT_GRADIENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/command_queue.h"
#include "client/graph.h"
#include "client/graph_mirror.h"
#include "proto/command.h"

namespace chx {

class ClientFunctions;
struct GradientReduction;

// Sends the commands of gradients and notes in the arrays' memberships what they mean: which arrays
// have a gradient, and where only the daemon knows.
//
// Owned by a Session. Arrays, and those that are connected to them, are used by one thread at a
// time.
class Gradients {
 public:
  Gradients(Session* session, CommandQueue* queue, GraphMirror* graphs, ClientFunctions* functions);
  Gradients(const Gradients&) = delete;

  // See Array for what these mean.
  absl::Status RequireGrad(ArrayBody* array, BackpropId id);
  // Commands that have become due are sent, or, with `flush_due`, left to the caller to FlushDue.
  absl::Status Backward(absl::Span<ArrayBody* const> outputs, const BackwardArgs& args,
                        bool* flush_due = nullptr);
  // Backward, but each of these parameters, which require a gradient, gets what the ranks of the
  // group have computed together.
  absl::Status ReduceBackward(absl::Span<ArrayBody* const> outputs,
                              absl::Span<ArrayBody* const> parameters, const Ints& group,
                              const GradientReduction& reduction, const BackwardArgs& args,
                              bool* flush_due = nullptr);
  // Null entries: not reachable. A null or missing output grad stands for ones.
  absl::StatusOr<std::vector<ArrayPtr>> Grad(absl::Span<ArrayBody* const> outputs,
                                             absl::Span<ArrayBody* const> inputs,
                                             absl::Span<ArrayBody* const> output_grads,
                                             const BackwardArgs& args);
  // Null if there is none; the same object as long as the gradient is the same. The array must be
  // flagged by RequireGrad.
  absl::StatusOr<ArrayPtr> GetGrad(ArrayBody* array, BackpropId id);
  absl::StatusOr<bool> HasGrad(ArrayBody* array, BackpropId id);
  absl::Status SetGrad(ArrayBody* array, const ArrayPtr& grad, BackpropId id);  // null: clear

 private:
  // The outputs' nodes, of those that are in the graph, at the start of a backward pass.
  absl::StatusOr<std::vector<GraphNode*>> StartPass(absl::string_view op,
                                                    absl::Span<ArrayBody* const> outputs,
                                                    BackpropId id);
  // The rest of Backward, where these are the outputs' nodes; true: the queue is due.
  template <typename PassCommand>
  absl::StatusOr<bool> RunPass(PassCommand command, const std::vector<GraphNode*>& nodes,
                               const BackwardArgs& args);
  absl::Status Flush(bool due, bool* flush_due);
  // Whether the pass may be recorded, so that its gradients are in graphs.
  bool IsRecorded(const std::vector<GraphNode*>& nodes, const BackwardArgs& args) const;
  bool MayCallFunctions(const Reachable& reachable) const;
  // What Backward means for the memberships of the arrays that it reaches.
  void UpdateMemberships(const std::vector<GraphNode*>& outputs, const Reachable& reachable,
                         BackpropId id, bool in_graph);
  // Makes membership->has_grad valid: asks the daemon if only the daemon knows.
  absl::Status RefreshGrad(ArrayBody* array, GraphMembership* membership);
  absl::Status CheckParameters(absl::Span<ArrayBody* const> parameters, BackpropId id);
  absl::Status CheckGradArguments(absl::Span<ArrayBody* const> outputs,
                                  absl::Span<ArrayBody* const> inputs,
                                  absl::Span<ArrayBody* const> output_grads);
  // An array for the gradient of each input that the pass may reach, bound to the command's
  // results. *sure: which of them are certain to exist or not to.
  std::vector<ArrayPtr> NewGrads(absl::Span<ArrayBody* const> inputs, const Reachable& reachable,
                                 bool in_graph, command::Grad* command, std::vector<bool>* sure);
  // Asks the daemon about the gradients that are not sure, and drops those that do not exist.
  absl::Status DropAbsent(const std::vector<bool>& sure, std::vector<ArrayPtr>* grads);

  Session& session_;
  CommandQueue& queue_;
  GraphMirror& graphs_;
  BackpropIds& backprop_ids_;
  ClientFunctions& functions_;
};

}  // namespace chx

#endif  // CHX_CLIENT_GRADIENTS_H_
