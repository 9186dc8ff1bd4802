// Elementwise operators. The engine casts inputs to the rule's dtype and broadcasts them; the
// gradients may therefore be of the broadcast shape: the caller sums them back.
#include <cmath>

#include "ops/defs/groups.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

Value Where(Value condition, Value x, Value y) {
  return condition.context()->Apply("where", {condition, x, y});
}

void AddGradient(GradContext& g) {
  g.SetInputGrad(0, g.output_grad(0));
  g.SetInputGrad(1, g.output_grad(0));
}

void SubtractGradient(GradContext& g) {
  g.SetInputGrad(0, g.output_grad(0));
  if (g.needs_grad(1)) g.SetInputGrad(1, -g.output_grad(0));
}

void MultiplyGradient(GradContext& g) {
  if (g.needs_grad(0)) g.SetInputGrad(0, g.output_grad(0) * g.input(1));
  if (g.needs_grad(1)) g.SetInputGrad(1, g.output_grad(0) * g.input(0));
}

void DivideGradient(GradContext& g) {
  const Value gx1 = g.output_grad(0) / g.input(1);
  g.SetInputGrad(0, gx1);
  if (g.needs_grad(1)) g.SetInputGrad(1, -(gx1 * g.input(0) / g.input(1)));
}

void PowerGradient(GradContext& g) {
  const Value x1 = g.input(0);
  const Value x2 = g.input(1);
  if (g.needs_grad(0)) {
    // 1.0 and not 1: an unsigned 0 - 1 would wrap.
    const Value exponent = x2.is_scalar() ? Value(x2.scalar().AsDouble() - 1) : x2 - 1.0;
    g.SetInputGrad(0, g.output_grad(0) * x2 * g.Apply("power", {x1, exponent}));
  }
  if (g.needs_grad(1)) {
    // In the result's dtype: x1's may be narrower.
    const Dtype dtype = g.output_spec(0).dtype;
    const auto wide = [&g, dtype](Value x) {
      return x.dtype() == dtype ? x : g.Apply("astype", {x}, {{"dtype", dtype}});
    };
    const Value log =
        x1.is_scalar() ? Value(std::log(x1.scalar().AsDouble())) : g.Apply("log", {wide(x1)});
    g.SetInputGrad(1, g.output_grad(0) * g.Apply("power", {x1, x2}) * log);
  }
}

// Where both are equal the gradient goes to x1, as in ChainerX.
void ChooseGradient(GradContext& g, const char* comparison) {
  const Value gy = g.output_grad(0);
  const Value first = g.Apply(comparison, {g.input(0), g.input(1)});
  if (g.needs_grad(0)) g.SetInputGrad(0, Where(first, gy, 0));
  if (g.needs_grad(1)) g.SetInputGrad(1, Where(first, 0, gy));
}

void MaximumGradient(GradContext& g) { ChooseGradient(g, "greater_equal"); }
void MinimumGradient(GradContext& g) { ChooseGradient(g, "less_equal"); }

absl::Status WhereRule(InferContext& c) {
  if (!c.has_array(0)) return TypeError("[where] expects an array as condition");
  Shape shape;
  CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
  const Dtype dtype = rules::PromoteInputs(c, 1);
  c.CastInputs(dtype);
  c.CastInput(0, Dtype::kBool);
  return c.AddOutput(dtype, shape);
}

void WhereGradient(GradContext& g) {
  const Value gy = g.output_grad(0);
  if (g.needs_grad(1)) g.SetInputGrad(1, Where(g.input(0), gy, 0));
  if (g.needs_grad(2)) g.SetInputGrad(2, Where(g.input(0), 0, gy));
}

void RegisterUnary(OpRegistry& r) {
  const auto unary = [&r](const char* name, const char* doc, InferFn rule) -> OpDef& {
    return r.Add(name).Doc(doc).Inputs({"x"}).Outputs({"y"}).Elementwise(rule);
  };
  unary("negative", "-x. Bool is refused.", rules::SameNoBool).Gradient([](GradContext& g) {
    g.SetInputGrad(0, -g.output_grad(0));
  });
  unary("exp", "e to the power of x. Integers give float32.", rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0) * g.output(0)); });
  unary("log", "Natural logarithm. Integers give float32.", rules::FloatUnary)
      .Saves({"x"})
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0) / g.input(0)); });
  unary("sqrt", "Square root. Integers give float32.", rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0) / (g.output(0) * 2.0)); });
  unary("square", "x * x.", rules::SameNoBool).Saves({"x"}).Gradient([](GradContext& g) {
    g.SetInputGrad(0, g.output_grad(0) * (g.input(0) * 2.0));
  });
  unary("tanh", "Hyperbolic tangent. Integers give float32.", rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        const Value y = g.output(0);
        g.SetInputGrad(0, g.output_grad(0) * (1.0 - y * y));
      });
  unary("sigmoid", "1 / (1 + exp(-x)). Integers give float32.", rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        const Value y = g.output(0);
        g.SetInputGrad(0, g.output_grad(0) * (y * (1.0 - y)));
      });
  unary("relu", "max(x, 0); NaN stays NaN. Integers give float32.", rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("relu_grad", {g.output(0), g.output_grad(0)}));
      });
  unary("abs", "Absolute value.", rules::SameNoBool)
      .Alias("absolute")
      .Saves({"x"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.output_grad(0) * g.Apply("sign", {g.input(0)}));
      });
  unary("sign", "-1, 0 or 1; NaN stays NaN.", rules::SameNoBool).Gradient([](GradContext& g) {
    g.SetInputGrad(0, g.output_grad(0) * 0.0);
  });
  unary("logical_not", "Whether x is zero.", rules::LogicalUnary);
  unary("expm1", "exp(x) - 1, exact for small x. Integers give float32.", rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0) * (g.output(0) + 1.0)); });
}

void RegisterBinary(OpRegistry& r) {
  const auto binary = [&r](const char* name, const char* doc, InferFn rule) -> OpDef& {
    return r.Add(name).Doc(doc).Inputs({"x1|scalar", "x2|scalar"}).Outputs({"y"}).Elementwise(rule);
  };
  binary("add", "x1 + x2. Bool is refused.", rules::ArithmeticNoBool).Gradient(AddGradient);
  binary("subtract", "x1 - x2. Bool is refused.", rules::ArithmeticNoBool)
      .Gradient(SubtractGradient);
  binary("multiply", "x1 * x2. For bools: logical and.", rules::Arithmetic)
      .Saves({"x1", "x2"})
      .Gradient(MultiplyGradient);
  binary("divide", "True division; integers give float32. Bool is refused.",
         rules::TrueDivideNoBool)
      .Alias("true_divide")
      .Saves({"x1", "x2"})
      .Gradient(DivideGradient);
  binary("floor_divide", "Rounded towards minus infinity; an integer divided by zero gives 0.",
         rules::ArithmeticNoBool);
  binary("remainder",
         "x1 - floor_divide(x1, x2) * x2, with the sign of x2; an integer modulo zero gives 0.",
         rules::ArithmeticNoBool)
      .Alias("mod")
      .Saves({"x1", "x2"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.output_grad(0));
        if (g.needs_grad(1)) {
          g.SetInputGrad(1,
                         -(g.output_grad(0) * g.Apply("floor_divide", {g.input(0), g.input(1)})));
        }
      });
  binary("power", "x1 to the power of x2. An integer to a negative power is rounded towards zero.",
         rules::ArithmeticNoBool)
      .Saves({"x1", "x2"})
      .Gradient(PowerGradient);
  binary("maximum", "The greater of both; NaN if either is.", rules::Extremum)
      .Saves({"x1", "x2"})
      .Gradient(MaximumGradient);
  binary("minimum", "The lesser of both; NaN if either is.", rules::Extremum)
      .Saves({"x1", "x2"})
      .Gradient(MinimumGradient);
  binary("equal", "x1 == x2, as bool.", rules::Comparison);
  binary("not_equal", "x1 != x2, as bool.", rules::Comparison);
  binary("greater", "x1 > x2, as bool.", rules::Comparison);
  binary("greater_equal", "x1 >= x2, as bool.", rules::Comparison);
  binary("less", "x1 < x2, as bool.", rules::Comparison);
  binary("less_equal", "x1 <= x2, as bool.", rules::Comparison);
  binary("logical_and", "Whether both are non-zero.", rules::Logical);
  binary("logical_or", "Whether either is non-zero.", rules::Logical);
  binary("logical_xor", "Whether exactly one is non-zero.", rules::Logical);
}

void RegisterInPlace(OpRegistry& r) {
  const auto in_place = [&r](const std::string& base, InferFn rule) {
    r.Add(base + "_")
        .Doc("The in-place form of " + base +
             ": a takes the result, cast to its dtype. Refused on arrays in a graph.")
        .Inputs({"a", "b|scalar"})
        .Infer(rule)
        .InPlace(base)
        .Internal();
  };
  in_place("multiply", rules::InPlaceArithmetic);
  for (const char* base : {"add", "subtract", "floor_divide", "remainder"}) {
    in_place(base, rules::InPlaceArithmeticNoBool);
  }
  in_place("divide", rules::InPlaceDivide);
}

}  // namespace

void RegisterElementwise(OpRegistry& r) {
  RegisterUnary(r);
  RegisterBinary(r);
  r.Add("where")
      .Doc("x where condition holds, y elsewhere. The condition is cast to bool.")
      .Inputs({"condition", "x|scalar", "y|scalar"})
      .Outputs({"z"})
      .Elementwise(WhereRule)
      .ConstantInputs({"condition"})
      .Saves({"condition"})
      .Gradient(WhereGradient);
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
  RegisterInPlace(r);
}

}  // namespace chx
