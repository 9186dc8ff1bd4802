// Activation functions. Those without a kernel are compositions, which get their gradients from
// their parts.
#include <string>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

OpDef& Activation(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name).Doc(std::string(doc) + " Integers give float32.").Inputs({"x"}).Outputs({"y"});
}

absl::Status CreluRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), x.ndim()));
  Shape shape = x.shape;
  shape[axis] *= 2;
  return c.AddOutput(AtLeastFloat(x.dtype), shape);
}

void RegisterSigmoidAndRelu(OpRegistry& r) {
  Activation(r, "sigmoid", "1 / (1 + exp(-x)).")
      .Elementwise(rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        const Value y = g.output(0);
        g.SetInputGrad(0, g.output_grad(0) * (y * (1.0 - y)));
      });
  Activation(r, "relu", "max(x, 0); NaN stays NaN.")
      .Elementwise(rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("relu_grad", {g.output(0), g.output_grad(0)}));
      });
  r.Add("relu_grad")
      .Doc("gy where y > 0, else 0.")
      .Inputs({"y", "gy"})
      .Outputs({"gx"})
      .Elementwise(rules::Arithmetic)
      .Internal()
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        if (g.needs_grad(0)) g.SetInputGrad(0, g.output_grad(0) * 0.0);
        if (g.needs_grad(1)) {
          g.SetInputGrad(1, g.Apply("relu_grad", {g.input(0), g.output_grad(0)}));
        }
      });
}

void RegisterComposed(OpRegistry& r) {
  Activation(r, "clipped_relu", "max(0, min(x, z)).")
      .Attr("z", AttrType::kFloat, 20.0)
      .Compose(rules::FloatUnary, [](ComposeContext& c) {
        const Value above = c.Apply("maximum", {FloatInput(c, 0), 0.0});
        c.SetOutput(0, c.Apply("minimum", {above, c.attr(0).AsFloat()}));
      });
  Activation(r, "crelu", "relu(x) and relu(-x), concatenated along an axis.")
      .Attr("axis", AttrType::kInt, 1)
      .Compose(CreluRule, [](ComposeContext& c) {
        const Value x = FloatInput(c, 0);
        c.SetOutput(0, c.Apply("concatenate", {c.Apply("relu", {x}), c.Apply("relu", {-x})},
                               {{"axis", c.attr(0)}}));
      });
  Activation(r, "elu", "x where x > 0, alpha * (exp(x) - 1) elsewhere.")
      .Attr("alpha", AttrType::kFloat, 1.0)
      .Compose(rules::FloatUnary, [](ComposeContext& c) {
        const Value x = FloatInput(c, 0);
        const Value above = c.Apply("greater", {x, 0});
        // Bounded, because its gradient is multiplied by 0 where x > 0, and must not be infinite.
        const Value below = c.Apply("expm1", {c.Apply("where", {above, 0.0, x})});
        c.SetOutput(0, c.Apply("where", {above, x, below * c.attr(0).AsFloat()}));
      });
  Activation(r, "leaky_relu", "x where x >= 0, slope * x elsewhere.")
      .Attr("slope", AttrType::kFloat, 0.2)
      .Compose(rules::FloatUnary, [](ComposeContext& c) {
        const Value x = FloatInput(c, 0);
        c.SetOutput(
            0, c.Apply("where", {c.Apply("greater_equal", {x, 0}), x, x * c.attr(0).AsFloat()}));
      });
  Activation(r, "softplus", "log(1 + exp(beta * x)) / beta, without overflow.")
      .Attr("beta", AttrType::kFloat, 1.0)
      .Compose(rules::FloatUnary,
               [](ComposeContext& c) {
                 const double beta = c.attr(0).AsFloat();
                 const Value x = FloatInput(c, 0);
                 if (beta == 1) return c.SetOutput(0, c.Apply("logaddexp", {x, 0.0}));
                 c.SetOutput(0, c.Apply("logaddexp", {x * beta, 0.0}) / beta);
               })
      .Saves({"x"})
      .Gradient([](GradContext& g) {
        const double beta = g.attr(0).AsFloat();
        const Value x = FloatInput(g, 0);
        const Value slope = g.Apply("sigmoid", {beta == 1 ? x : x * beta});
        g.SetInputGrad(0, g.output_grad(0) * slope);
      });
}

}  // namespace

void RegisterActivation(OpRegistry& r) {
  RegisterSigmoidAndRelu(r);
  RegisterComposed(r);
}

}  // namespace chx
