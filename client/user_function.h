// Functions of your own in a graph: computed by any means, with a gradient that you write.
//
//   class Cube : public chx::UserFunction {
//     std::vector<chx::Array> Forward(absl::Span<const chx::Array> x, Retained* retained) override
//     {
//       retained->inputs = {0};
//       return {x[0] * x[0] * x[0]};
//     }
//     absl::StatusOr<Gradients> Backward(const chx::BackwardContext& context) override {
//       const chx::Array x = context.input(0);
//       return Gradients{3.0 * x * x * context.output_grad(0)};
//     }
//   };
//   chx::Array y = chx::ApplyFunctionToArray(std::make_shared<Cube>(), {x});
#ifndef CHX_CLIENT_USER_FUNCTION_H_
#define CHX_CLIENT_USER_FUNCTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "client/array.h"

namespace chx {

struct AppliedFunction;
struct FunctionCallArgs;

// What a gradient is made of. Valid during the call of UserFunction::Backward.
class BackwardContext {
 public:
  BackwardContext(const AppliedFunction& applied, const FunctionCallArgs& call)
      : applied_(applied), call_(call) {}
  BackwardContext(const BackwardContext&) = delete;

  size_t num_inputs() const;
  size_t num_outputs() const;
  // Whether anybody needs the gradient of an input. That of another one is dropped.
  bool IsWanted(size_t input) const;
  // The gradient of an output; zeros if nothing depends on that output.
  Array output_grad(size_t output) const;
  bool has_output_grad(size_t output) const;
  // What Forward retained, in the graphs that it was in; else an array that holds an error.
  Array input(size_t input) const;
  Array output(size_t output) const;

 private:
  const AppliedFunction& applied_;
  const FunctionCallArgs& call_;
};

// One object may be applied any number of times. Called by the threads that call ApplyFunction and
// Backward, and destroyed by any thread, when no graph refers to it any more.
class UserFunction {
 public:
  // The numbers of the inputs and outputs that Backward needs. Others may be freed before.
  struct Retained {
    std::vector<int64_t> inputs;
    std::vector<int64_t> outputs;
  };
  // One for each input; nullopt: none.
  using Gradients = std::vector<absl::optional<Array>>;

  virtual ~UserFunction() = default;
  // Computes at least one output, by operators or from values that it reads. Records nothing.
  virtual std::vector<Array> Forward(absl::Span<const Array> inputs, Retained* retained) = 0;
  // Called in Backward() or Grad(); may run operators, and other backward passes. Gradients are of
  // their inputs' shapes. Where the pass is differentiated again, the operators here are recorded.
  // After an error, and if a gradient holds one, the pass has had no effect and returns the error.
  virtual absl::StatusOr<Gradients> Backward(const BackwardContext& context) = 0;
};

// The outputs of Forward, connected to the graphs of the inputs.
absl::StatusOr<std::vector<Array>> ApplyFunction(std::shared_ptr<UserFunction> function,
                                                 absl::Span<const Array> inputs);
// The same of a function of one output.
Array ApplyFunctionToArray(std::shared_ptr<UserFunction> function, absl::Span<const Array> inputs);

}  // namespace chx

#endif  // CHX_CLIENT_USER_FUNCTION_H_
