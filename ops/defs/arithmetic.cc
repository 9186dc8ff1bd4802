// Elementwise arithmetic: sums, products, quotients, powers, extrema and their in-place forms. The
// engine casts inputs to the rule's dtype and broadcasts them. Gradients may therefore have the
// broadcast shape: the caller sums them.
#include <cmath>
#include <string>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

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

void RemainderGradient(GradContext& g) {
  g.SetInputGrad(0, g.output_grad(0));
  if (!g.needs_grad(1)) return;
  g.SetInputGrad(1, -(g.output_grad(0) * g.Apply("floor_divide", {g.input(0), g.input(1)})));
}

void FmodGradient(GradContext& g) {
  g.SetInputGrad(0, g.output_grad(0));
  if (!g.needs_grad(1)) return;
  const Value quotient = g.Apply("trunc", {FloatInput(g, 0) / FloatInput(g, 1)});
  g.SetInputGrad(1, -(g.output_grad(0) * quotient));
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
    const Value log = x1.is_scalar() ? Value(std::log(x1.scalar().AsDouble()))
                                     : g.Apply("log", {Cast(x1, g.output_spec(0).dtype)});
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

absl::Status IntegersRule(InferContext& c) {
  const Dtype dtype = rules::PromoteInputs(c, 0);
  if (IsInt(dtype)) return rules::Arithmetic(c);
  return DtypeError("[", c.name(), "] expects integers, got ", DtypeName(dtype));
}

absl::Status Float64Rule(InferContext& c) {
  Shape shape;
  CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
  return c.AddOutput(Dtype::kFloat64, shape);
}

void RegisterUnary(OpRegistry& r) {
  const auto unary = [&r](const char* name, const char* doc) -> OpDef& {
    return r.Add(name).Doc(doc).Inputs({"x"}).Outputs({"y"});
  };
  unary("negative", "-x. Bool is refused.")
      .Elementwise(rules::SameNoBool)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, -g.output_grad(0)); });
  unary("positive", "A copy of x, which is not bool.")
      .Compose(rules::SameNoBool,
               [](ComposeContext& c) { c.SetOutput(0, c.Apply("copy", {c.input(0)})); });
  unary("abs", "Absolute value.")
      .Elementwise(rules::SameNoBool)
      .Alias("absolute")
      .Saves({"x"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.output_grad(0) * g.Apply("sign", {g.input(0)}));
      });
  unary("fabs", "Absolute value. Integers give float32.")
      .Compose(rules::FloatUnary,
               [](ComposeContext& c) { c.SetOutput(0, c.Apply("abs", {FloatInput(c, 0)})); });
  unary("sign", "-1, 0 or 1; NaN stays NaN.")
      .Elementwise(rules::SameNoBool)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0) * 0.0); });
  unary("square", "x * x.")
      .Elementwise(rules::SameNoBool)
      .Saves({"x"})
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.output_grad(0) * (g.input(0) * 2.0)); });
  unary("reciprocal", "1 / x. Integers give float32.")
      .Compose(rules::FloatUnary,
               [](ComposeContext& c) { c.SetOutput(0, 1.0 / FloatInput(c, 0)); });
}

OpDef& Binary(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name).Doc(doc).Inputs({"x1|scalar", "x2|scalar"}).Outputs({"y"});
}

void RegisterSumsAndProducts(OpRegistry& r) {
  Binary(r, "add", "x1 + x2. Bool is refused.")
      .Elementwise(rules::ArithmeticNoBool)
      .Gradient(AddGradient);
  Binary(r, "subtract", "x1 - x2. Bool is refused.")
      .Elementwise(rules::ArithmeticNoBool)
      .Gradient(SubtractGradient);
  Binary(r, "multiply", "x1 * x2. For bools: logical and.")
      .Elementwise(rules::Arithmetic)
      .Saves({"x1", "x2"})
      .Gradient(MultiplyGradient);
}

void RegisterQuotients(OpRegistry& r) {
  Binary(r, "divide", "True division; integers give float32. Bool is refused.")
      .Elementwise(rules::TrueDivideNoBool)
      .Alias("true_divide")
      .Saves({"x1", "x2"})
      .Gradient(DivideGradient);
  Binary(r, "floor_divide", "Rounded towards minus infinity; an integer divided by zero gives 0.")
      .Elementwise(rules::ArithmeticNoBool);
  Binary(r, "remainder",
         "x1 - floor_divide(x1, x2) * x2, with the sign of x2; an integer modulo zero gives 0.")
      .Elementwise(rules::ArithmeticNoBool)
      .Alias("mod")
      .Saves({"x1", "x2"})
      .Gradient(RemainderGradient);
  Binary(r, "fmod",
         "The remainder of x1 / x2 with the sign of x1; an integer modulo zero gives 0. Bool is "
         "refused.")
      .Elementwise(rules::ArithmeticNoBool)
      .Saves({"x1", "x2"})
      .Gradient(FmodGradient);
}

void RegisterPowers(OpRegistry& r) {
  Binary(r, "power",
         "x1 to the power of x2. An integer to a negative power is rounded towards zero.")
      .Elementwise(rules::ArithmeticNoBool)
      .Saves({"x1", "x2"})
      .Gradient(PowerGradient);
  Binary(r, "float_power", "x1 to the power of x2, in float64.")
      .Compose(Float64Rule, [](ComposeContext& c) {
        const auto wide = [](Value x) {
          return x.is_scalar() ? Value(x.scalar().AsDouble()) : Cast(x, Dtype::kFloat64);
        };
        c.SetOutput(0, c.Apply("power", {wide(c.input(0)), wide(c.input(1))}));
      });
}

// `op` of x1 and x2. Where one of them is NaN, the other takes its place.
void IgnoringNan(ComposeContext& c, const char* op) {
  const Value other = Where(c.Apply("isnan", {c.input(0)}), c.input(1), c.input(0));
  const Value one = Where(c.Apply("isnan", {c.input(1)}), other, c.input(1));
  c.SetOutput(0, c.Apply(op, {other, one}));
}

void RegisterExtrema(OpRegistry& r) {
  Binary(r, "maximum", "The greater of both; NaN if either is.")
      .Elementwise(rules::Extremum)
      .Saves({"x1", "x2"})
      .Gradient(MaximumGradient);
  Binary(r, "minimum", "The lesser of both; NaN if either is.")
      .Elementwise(rules::Extremum)
      .Saves({"x1", "x2"})
      .Gradient(MinimumGradient);
  const auto ignoring_nan = [&r](const char* name, const char* doc, ComposeFn compose) {
    r.Add(name).Doc(doc).Inputs({"x1", "x2"}).Outputs({"y"}).Compose(rules::Arithmetic, compose);
  };
  ignoring_nan("fmax", "The greater of both, or the one that is not NaN.",
               [](ComposeContext& c) { IgnoringNan(c, "maximum"); });
  ignoring_nan("fmin", "The lesser of both, or the one that is not NaN.",
               [](ComposeContext& c) { IgnoringNan(c, "minimum"); });
}

void RegisterDivisors(OpRegistry& r) {
  Binary(r, "gcd", "The greatest common divisor of integers; that of 0 and 0 is 0.")
      .Elementwise(IntegersRule);
  Binary(r, "lcm", "The least common multiple of integers, wrapping around; 0 if one is 0.")
      .Elementwise(IntegersRule);
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

void RegisterArithmetic(OpRegistry& r) {
  RegisterUnary(r);
  RegisterSumsAndProducts(r);
  RegisterQuotients(r);
  RegisterPowers(r);
  RegisterExtrema(r);
  RegisterDivisors(r);
  RegisterInPlace(r);
}

}  // namespace chx
