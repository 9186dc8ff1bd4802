// Backward and grad, by a backward pass over the graph.
#ifndef CHX_SERVER_AUTOGRAD_BACKWARD_H_
#define CHX_SERVER_AUTOGRAD_BACKWARD_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "server/autograd/apply.h"
#include "server/autograd/backward_pass.h"
#include "server/autograd/gradient_reducer.h"

namespace chx::server {

// One backward or grad, which may wait for the client in its middle. To drop it there undoes it.
class Backprop {
 public:
  // Adds d(outputs)/d(leaf) to the gradient of each array below that requires one. An output starts
  // from its gradient where that is set, else from ones. The graph is kept. Outputs outside of the
  // graph are passed over. After an error, leaves keep their old gradients.
  static absl::StatusOr<std::unique_ptr<Backprop>> Backward(Runtime& runtime,
                                                            absl::Span<Variable* const> outputs,
                                                            const BackwardOptions& options,
                                                            const RecordMode& mode);
  // As Backward, but the reducer's parameters get what all ranks' gradients are together.
  static absl::StatusOr<std::unique_ptr<Backprop>> Backward(
      Runtime& runtime, absl::Span<Variable* const> outputs, const BackwardOptions& options,
      const RecordMode& mode, std::unique_ptr<GradientReducer> reducer);
  // d(outputs)/d(inputs), without touching any array's gradient, unless asked to. A null entry of
  // `output_grads` (or none at all) stands for the gradient that the output has, else for ones.
  // Inputs that no output depends on give nullopt. Only what lies between both is computed.
  static absl::StatusOr<std::unique_ptr<Backprop>> Grad(Runtime& runtime,
                                                        absl::Span<Variable* const> outputs,
                                                        absl::Span<Variable* const> inputs,
                                                        absl::Span<Variable* const> output_grads,
                                                        const BackwardOptions& options,
                                                        const RecordMode& mode);

  BackwardPass& pass() { return pass_; }
  const GradientReducer* reducer() const { return reducer_.get(); }
  // At the end of the pass: exchanges a delayed reducer for that of the pass before (null: none),
  // if both have the same number.
  absl::Status Delay(std::unique_ptr<GradientReducer>* before);
  // When the pass has come to its end. Gradients for Grad's inputs; nothing for Backward.
  absl::StatusOr<std::vector<absl::optional<Variable>>> Finish();

 private:
  Backprop(Runtime& runtime, const BackwardOptions& options, const RecordMode& mode);
  absl::Status StartFromOwn(ArrayNode* node);
  absl::Status FinishBackward();
  absl::Status AddReduced();
  absl::StatusOr<std::vector<absl::optional<Variable>>> FinishGrad();

  Runtime runtime_;
  const BackwardOptions options_;
  BackwardPass pass_;
  bool gives_grads_ = false;
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<Ref<ArrayNode>> reduced_;  // whose gradients the reducer gives
  std::vector<Ref<ArrayNode>> started_;  // Backward: outputs that had gradients
  std::vector<Ref<ArrayNode>> inputs_;   // Grad: null: not in the graph
};

}  // namespace chx::server

#endif  // CHX_SERVER_AUTOGRAD_BACKWARD_H_
