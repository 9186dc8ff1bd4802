// One pass over a graph, from outputs down to leaves. It stops where the client is to compute a
// gradient, and goes on when that is there.
#ifndef CHX_SERVER_AUTOGRAD_BACKWARD_PASS_H_
#define CHX_SERVER_AUTOGRAD_BACKWARD_PASS_H_

#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "server/autograd/apply.h"

namespace chx::server {

struct BackwardOptions {
  BackpropId id = 0;
  // The pass is recorded in the same graph, so that gradients can be differentiated again.
  bool enable_double_backprop = false;
  // What unset gradients of the outputs are filled with; final gradients are divided by it.
  double loss_scale = 1.0;
  // Grad only: arrays on the way keep their gradients, as if they had been set.
  bool retain_grad = false;
};

// A function of the client's whose gradient a pass waits for. Variables without an array: none.
struct FunctionCall {
  uint64_t function = 0;
  std::vector<int> targets;  // the inputs whose gradients are wanted
  std::vector<Variable> output_grads;
  std::vector<Variable> retained_inputs;
  std::vector<Variable> retained_outputs;
};

// Told of the gradients of some arrays as soon as a pass has all of them.
class GradientSink {
 public:
  // Of one of the arrays, by its number: nothing is added to it any more.
  virtual absl::Status Complete(size_t number, const Variable& grad) = 0;

 protected:
  ~GradientSink() = default;
};

// Gradients by array node, op nodes from the highest rank down. Other commands may run, and change
// the graph, while a pass waits: it holds all that it comes back to.
class BackwardPass {
 public:
  // Graphs that were made after this one are not continued by its gradients.
  BackwardPass(Runtime& runtime, const BackwardOptions& options, const RecordMode& mode);
  ~BackwardPass();
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  // Only what lies between the outputs and these nodes is visited, and their gradients are kept.
  absl::Status LimitTo(absl::Span<ArrayNode* const> outputs, absl::Span<ArrayNode* const> inputs);
  // The sink, which is there until the end, is told of these nodes' gradients, below the outputs.
  // Of some it may not be told: Find has them at the end. Before Run.
  absl::Status Watch(absl::Span<ArrayNode* const> outputs, absl::Span<const Ref<ArrayNode>> nodes,
                     GradientSink* sink);
  absl::Status Start(ArrayNode* node, Variable grad);
  // To the end, or to where it waits.
  absl::Status Run();
  const FunctionCall* waiting() const { return call_.has_value() ? &*call_ : nullptr; }
  // Gradients for the call's targets; null: none. Then Run goes on.
  absl::Status Answer(absl::Span<const Variable* const> input_grads);

  Variable* Find(ArrayNode* node);
  template <typename Fn>
  absl::Status ForEach(Fn fn) {
    for (const Ref<ArrayNode>& node : order_) {
      auto it = grads_.find(node.get());
      if (it != grads_.end()) CHX_RETURN_IF_ERROR(fn(node.get(), &it->second));
    }
    return absl::OkStatus();
  }
  // Forgets all gradients; gives what passed through operators, if the options ask for that.
  std::vector<std::pair<Ref<ArrayNode>, Variable>> Finish();
  const RecordMode& mode() const { return mode_; }

  // Ones, or another value, of the array's spec.
  absl::StatusOr<Variable> Full(const ArraySpec& spec, double value);

 private:
  struct ByRank {
    bool operator()(const Ref<OpNode>& a, const Ref<OpNode>& b) const { return a->rank < b->rank; }
  };

  // A node of which a sink is told.
  struct Watched {
    size_t number = 0;
    int64_t uses = 0;  // by op nodes that have not run
  };

  // Of the session's memory, for as long as the pass exists.
  absl::Status Charge(int64_t bytes);
  // All op nodes below, in no order.
  absl::StatusOr<std::vector<OpNode*>> Below(absl::Span<ArrayNode* const> outputs);
  // The op node has given its inputs all that it gives them.
  absl::Status TellOfInputs(OpNode& op_node);
  bool Wants(const ArrayNode* node) const;
  absl::Status Push(ArrayNode* node);
  absl::StatusOr<Variable> Reduce(Variable grad, const ArraySpec& spec);
  absl::StatusOr<Variable> Unary(absl::string_view op, const Variable& x,
                                 absl::Span<const AttrValue> attrs);
  absl::Status Accumulate(ArrayNode* node, const Variable& grad);
  // Adds the gradient of a part of an array, where that has one which nobody else sees, in place:
  // with zeros around it, it would take time for the whole array. False: not done.
  absl::StatusOr<bool> AddToPart(OpNode* op_node, const Variable& output_grad);
  absl::Status Step(const Ref<OpNode>& op_node);
  absl::Status RunRule(OpNode* op_node, absl::Span<const Variable> output_grads);
  absl::Status Call(const Ref<OpNode>& op_node, absl::Span<const Variable> output_grads);
  absl::Status Propagate(ArrayNode* node, const Variable& grad);

  Runtime runtime_;
  const BackwardOptions options_;
  RecordMode mode_;
  std::priority_queue<Ref<OpNode>, std::vector<Ref<OpNode>>, ByRank> queue_;
  absl::flat_hash_set<OpNode*> seen_;
  absl::flat_hash_map<ArrayNode*, Variable> grads_;
  std::vector<Ref<ArrayNode>> order_;  // all that ever had a gradient; keeps addresses unique
  bool limited_ = false;               // to the op nodes in useful_
  absl::flat_hash_set<const OpNode*> useful_;
  absl::flat_hash_set<const ArrayNode*> kept_;  // gradients outlive the step that consumes them
  std::vector<Ref<OpNode>> useful_refs_;  // of the same; and those of kept_: for the addresses
  std::vector<Ref<ArrayNode>> kept_refs_;
  std::vector<std::pair<Ref<ArrayNode>, Variable>> retained_;
  GradientSink* sink_ = nullptr;
  absl::flat_hash_map<const ArrayNode*, Watched> watched_;
  absl::optional<FunctionCall> call_;
  Ref<OpNode> waiting_;
  int64_t charged_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_BACKWARD_PASS_H_
