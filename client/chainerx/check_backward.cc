#include "chx/chainerx/check_backward.h"

#include <algorithm>
#include <cmath>

#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

std::vector<double> ToDoubles(const Array& array) {
  return ToVector<double>(array.AsGradStopped().AsType(Dtype::kFloat64));
}

// On a's device, of its shape and dtype.
Array FromDoubles(const std::vector<double>& values, const Array& a) {
  const std::shared_ptr<double> data(new double[values.size()], std::default_delete<double[]>());
  std::copy(values.begin(), values.end(), data.get());
  return FromContiguousHostData(a.shape(), Dtype::kFloat64, data, a.device())
      .AsType(a.dtype(), false);
}

// sum(grad_outputs * (high - low)), as a float64 array of no dimensions.
Array Difference(const std::vector<Array>& high, const std::vector<Array>& low,
                 const std::vector<Array>& grad_outputs) {
  if (high.size() != grad_outputs.size()) {
    throw GradientCheckError("[check_backward] expects as many grad_outputs as outputs (",
                             high.size(), "), got ", grad_outputs.size());
  }
  Array total = Zeros({}, Dtype::kFloat64, high[0].device());
  for (size_t i = 0; i < high.size(); ++i) {
    const auto wide = [](const Array& array) {
      return array.AsGradStopped().AsType(Dtype::kFloat64, false);
    };
    total = total + Sum((wide(high[i]) - wide(low[i])) * wide(grad_outputs[i]));
  }
  return total;
}

// The inputs as leaves: in the graph where they are, but not connected to how they were made.
std::vector<Array> Leaves(const std::vector<Array>& inputs, const Optional<BackpropId>& id) {
  std::vector<Array> leaves;
  for (const Array& input : inputs) {
    leaves.push_back(input.AsGradStopped());
    if (input.IsBackpropRequired(id)) leaves.back().RequireGrad(id);
  }
  return leaves;
}

std::vector<ConstArrayRef> Refs(const std::vector<Array>& arrays) {
  return std::vector<ConstArrayRef>(arrays.begin(), arrays.end());
}

// Of those inputs that are in the graph.
std::vector<Optional<Array>> BackwardGradients(const GradientCheckFunction& func,
                                               const std::vector<Array>& inputs,
                                               const std::vector<Array>& grad_outputs,
                                               const Optional<BackpropId>& id) {
  const std::vector<Array> outputs = func(inputs);
  if (outputs.size() != grad_outputs.size()) {
    throw GradientCheckError("[check_backward] expects as many grad_outputs as outputs (",
                             outputs.size(), "), got ", grad_outputs.size());
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].IsBackpropRequired(id)) outputs[i].SetGrad(grad_outputs[i], id);
  }
  for (const Array& input : inputs) {
    if (input.IsBackpropRequired(id)) input.ClearGrad(id);  // func may call Backward itself
  }
  Backward(Refs(outputs), id);
  std::vector<Optional<Array>> grads;
  grads.reserve(inputs.size());
  for (const Array& input : inputs) {
    grads.push_back(input.IsBackpropRequired(id) ? input.GetGrad(id) : std::nullopt);
  }
  return grads;
}

// A GradientCheckError that shows the worst element, if one is too far from the numerical gradient.
void Compare(size_t input, const Array& grad, const Array& numerical, double atol, double rtol) {
  const std::vector<double> found = ToDoubles(grad);
  const std::vector<double> expected = ToDoubles(numerical);
  size_t worst = 0;
  double worst_excess = -1;
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(found[i] - expected[i]);
    const double excess = error - (atol + rtol * std::fabs(expected[i]));
    if (excess > worst_excess || std::isnan(excess)) {
      worst = i;
      worst_excess = std::isnan(excess) ? HUGE_VAL : excess;
    }
  }
  if (worst_excess <= 0) return;
  throw GradientCheckError("[check_backward] expects the gradient of input ", input,
                           " to be the numerical one within atol ", atol, " and rtol ", rtol,
                           ", got ", found[worst], " instead of ", expected[worst], " for element ",
                           worst, "\nbackward: ", grad, "\nnumerical: ", numerical);
}

void CheckRequired(const char* what, const std::vector<Array>& arrays,
                   const Optional<BackpropId>& id) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].IsBackpropRequired(id)) continue;
    throw ChainerxError("[check_double_backward] expects all ", what,
                        " to require gradients, got number ", i, ", which does not");
  }
}

}  // namespace

std::vector<Array> CalculateNumericalGradient(const GradientCheckFunction& func,
                                              const std::vector<Array>& inputs,
                                              const std::vector<Array>& grad_outputs,
                                              const std::vector<Array>& eps) {
  if (eps.size() != inputs.size()) {
    throw GradientCheckError("[numerical_gradient] expects eps for each of ", inputs.size(),
                             " inputs, got ", eps.size());
  }
  std::vector<Array> grads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckEqual(inputs[i].shape(), eps[i].shape());
    const std::vector<double> values = ToDoubles(inputs[i]);
    const std::vector<double> steps = ToDoubles(eps[i]);
    std::vector<Array> differences;
    for (size_t element = 0; element < values.size(); ++element) {
      const auto outputs_at = [&](double step) {
        std::vector<double> moved = values;
        moved[element] += step;
        std::vector<Array> arguments = inputs;
        arguments[i] = FromDoubles(moved, inputs[i]);
        return func(arguments);
      };
      const double step = steps[element];
      const Array difference = Difference(outputs_at(step), outputs_at(-step), grad_outputs);
      differences.push_back(difference / (2 * step));
    }
    // Nothing has waited for a value until here.
    grads.push_back(
        differences.empty()
            ? ZerosLike(inputs[i], inputs[i].device())
            : Reshape(Stack(differences), inputs[i].shape()).AsType(inputs[i].dtype(), false));
  }
  return grads;
}

void CheckBackward(const GradientCheckFunction& func, const std::vector<Array>& inputs,
                   const std::vector<Array>& grad_outputs, const std::vector<Array>& eps,
                   size_t /*concurrent_check_thread_count*/, double atol, double rtol,
                   const Optional<BackpropId>& id) {
  if (inputs.empty()) throw ValueError("[check_backward] expects at least one input");
  const std::vector<Optional<Array>> grads =
      BackwardGradients(func, Leaves(inputs, id), grad_outputs, id);
  const std::vector<Array> numerical =
      CalculateNumericalGradient(func, Leaves(inputs, id), grad_outputs, eps);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].IsBackpropRequired(id)) continue;
    // No gradient came: that of zeros.
    const Array grad = grads[i].has_value() ? *grads[i] : ZerosLike(inputs[i], inputs[i].device());
    Compare(i, grad, numerical[i], atol, rtol);
  }
}

void CheckDoubleBackwardComputation(const GradientCheckFunction& func,
                                    const std::vector<Array>& inputs,
                                    const std::vector<Array>& grad_outputs,
                                    const std::vector<Array>& grad_grad_inputs,
                                    const std::vector<Array>& eps,
                                    size_t concurrent_check_thread_count, double atol, double rtol,
                                    const Optional<BackpropId>& id) {
  if (grad_grad_inputs.size() != inputs.size()) {
    throw ChainerxError("[check_double_backward] expects a grad_grad_input for each of ",
                        inputs.size(), " inputs, got ", grad_grad_inputs.size());
  }
  CheckRequired("inputs", inputs, id);
  CheckRequired("grad_outputs", grad_outputs, id);
  const auto first_order = [&](const std::vector<Array>& arguments) {
    const auto middle = arguments.begin() + static_cast<std::ptrdiff_t>(inputs.size());
    const std::vector<Array> xs(arguments.begin(), middle);
    const std::vector<Array> gys(middle, arguments.end());
    for (const Array& argument : arguments) argument.RequireGrad(id);
    std::vector<Array> grads;
    const std::vector<Optional<Array>> found =
        Grad(Refs(func(xs)), Refs(xs), id, DoubleBackpropOption::kEnable, false, false, Refs(gys));
    for (size_t i = 0; i < xs.size(); ++i) {
      if (!found[i].has_value()) {
        throw GradientCheckError("[check_double_backward] expects outputs that depend on input ", i,
                                 ", got none");
      }
      grads.push_back(*found[i]);
    }
    return grads;
  };
  std::vector<Array> arguments = inputs;
  arguments.insert(arguments.end(), grad_outputs.begin(), grad_outputs.end());
  CheckBackward(first_order, arguments, grad_grad_inputs, eps, concurrent_check_thread_count, atol,
                rtol, id);
}

}  // namespace chainerx
