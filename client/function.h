// Operators that a client computes itself: it makes arrays of others by any means, and knows their
// gradient. In the daemon's graph they are nodes like others.
#ifndef CHX_CLIENT_FUNCTION_H_
#define CHX_CLIENT_FUNCTION_H_

#include <vector>

#include "absl/status/status.h"
#include "client/array.h"

namespace chx {

// What a gradient is made of. Null: not there. Retained arrays are in the graphs that they were in.
struct FunctionCallArgs {
  std::vector<int> targets;            // the inputs whose gradients are wanted, ascending
  std::vector<ArrayPtr> output_grads;  // one for each output
  std::vector<ArrayPtr> retained_inputs;
  std::vector<ArrayPtr> retained_outputs;
};

// One application of such an operator: what it keeps for its gradient is in its members.
class Function {
 public:
  virtual ~Function() = default;
  // Called in backward() or grad(), by the thread that called these; may run any operators, and
  // other backward passes. Gradients for the targets, of their inputs' shapes; null: none. Where
  // the pass is differentiated again, operators are recorded. An error ends the pass, which has had
  // no effect then, and is what backward() or grad() returns.
  virtual absl::Status Backward(const FunctionCallArgs& args,
                                std::vector<ArrayPtr>* input_grads) = 0;
};

}  // namespace chx

#endif  // CHX_CLIENT_FUNCTION_H_
