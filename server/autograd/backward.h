// Walks graphs back.
#ifndef CHX_SERVER_AUTOGRAD_BACKWARD_H_
#define CHX_SERVER_AUTOGRAD_BACKWARD_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "server/autograd/apply.h"

namespace chx {

struct BackwardOptions {
  BackpropId id = 0;
  // The walk is recorded in the same graph, so that gradients can be differentiated again.
  bool enable_double_backprop = false;
  // What unset gradients of the outputs are filled with; final gradients are divided by it.
  double loss_scale = 1.0;
  // Grad only: arrays that the walk passes keep their gradients, as if they had been set.
  bool retain_grad = false;
};

// Adds d(outputs)/d(leaf) to the gradient of each array below that requires one. An output starts
// from its gradient where that is set, else from ones. The graph is kept. Outputs outside of the
// graph are passed over. After an error, leaves keep their old gradients.
absl::Status Backward(Runtime& runtime, absl::Span<Variable* const> outputs,
                      const BackwardOptions& options, const RecordMode& mode);

// d(outputs)/d(inputs), without touching any array's gradient, unless asked to. A null entry of
// `output_grads` (or none at all) stands for the gradient that the output has, else for ones.
// Inputs that no output depends on give nullopt. Only what lies between both is computed.
absl::StatusOr<std::vector<absl::optional<Variable>>> Grad(Runtime& runtime,
                                                           absl::Span<Variable* const> outputs,
                                                           absl::Span<Variable* const> inputs,
                                                           absl::Span<Variable* const> output_grads,
                                                           const BackwardOptions& options,
                                                           const RecordMode& mode);

}  // namespace chx

#endif  // CHX_SERVER_AUTOGRAD_BACKWARD_H_
