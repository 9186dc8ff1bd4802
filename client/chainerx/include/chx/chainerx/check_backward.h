// Gradients compared with numerical ones.
#ifndef CHX_CHAINERX_CHECK_BACKWARD_H_
#define CHX_CHAINERX_CHECK_BACKWARD_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "chx/chainerx/array.h"
#include "chx/chainerx/optional.h"

namespace chainerx {

using GradientCheckFunction = std::function<std::vector<Array>(const std::vector<Array>&)>;

// For each input sum(grad_outputs * dy / dx), by central differences: eps holds steps for each
// element of each input.
std::vector<Array> CalculateNumericalGradient(const GradientCheckFunction& func,
                                              const std::vector<Array>& inputs,
                                              const std::vector<Array>& grad_outputs,
                                              const std::vector<Array>& eps);

// Compares the gradients of those inputs that require them with numerical ones. A
// GradientCheckError if |backward - numerical| > atol + rtol |numerical| somewhere. The thread
// count is ChainerX's and is not used: arrays are for one thread at a time.
void CheckBackward(const GradientCheckFunction& func, const std::vector<Array>& inputs,
                   const std::vector<Array>& grad_outputs, const std::vector<Array>& eps,
                   size_t concurrent_check_thread_count = 2, double atol = 1e-5, double rtol = 1e-4,
                   const Optional<BackpropId>& id = std::nullopt);

// The same for the gradients themselves, as functions of the inputs and the gradients of the
// outputs, which must all require their gradients. eps: for the inputs, then for grad_outputs.
void CheckDoubleBackwardComputation(
    const GradientCheckFunction& func, const std::vector<Array>& inputs,
    const std::vector<Array>& grad_outputs, const std::vector<Array>& grad_grad_inputs,
    const std::vector<Array>& eps, size_t concurrent_check_thread_count = 2, double atol = 1e-5,
    double rtol = 1e-4, const Optional<BackpropId>& id = std::nullopt);

}  // namespace chainerx

#endif  // CHX_CHAINERX_CHECK_BACKWARD_H_
