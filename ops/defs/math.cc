// Elementwise mathematics beyond arithmetic: exponentials, trigonometry, rounding, tests.
#include <cmath>
#include <string>

#include "ops/defs/groups.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn10 = 2.30258509299404568402;
constexpr double kTwoBySqrtPi = 1.12837916709551257390;

Value Sqrt(Value x) { return x.context()->Apply("sqrt", {x}); }

OpDef& Unary(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(std::string(doc) + " Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Elementwise(rules::FloatUnary);
}

// Input i as a float, array or scalar: of bool there is no arithmetic.
Value FloatInput(GradContext& g, int i) {
  const Value x = g.input(i);
  const Dtype dtype = g.output_spec(0).dtype;
  if (x.is_scalar()) return Value(x.scalar().AsDouble());
  return x.dtype() == dtype ? x : g.Apply("astype", {x}, {{"dtype", dtype}});
}

OpDef& Binary(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(std::string(doc) + " Integers give float32.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Elementwise(rules::TrueDivide);
}

void RegisterExponential(OpRegistry& r) {
  Unary(r, "exp2", "2 to the power of x.").Saves({"y"}).Gradient([](GradContext& g) {
    const Value y = g.output(0);
    g.SetInputGrad(0, g.output_grad(0) * (y * kLn2));
  });
  Unary(r, "log2", "Logarithm to the base 2.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / (x * kLn2));
  });
  Unary(r, "log10", "Logarithm to the base 10.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / (x * kLn10));
  });
  Unary(r, "log1p", "log(1 + x), exact for small x.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / (x + 1.0));
  });
  Unary(r, "erf", "The error function.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) * (g.Apply("exp", {-(x * x)}) * kTwoBySqrtPi));
  });
}

void RegisterTrigonometric(OpRegistry& r) {
  Unary(r, "sin", "Sine of x in radians.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) * g.Apply("cos", {x}));
  });
  Unary(r, "cos", "Cosine of x in radians.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, -(g.output_grad(0) * g.Apply("sin", {x})));
  });
  Unary(r, "tan", "Tangent of x in radians.").Saves({"y"}).Gradient([](GradContext& g) {
    const Value y = g.output(0);
    g.SetInputGrad(0, g.output_grad(0) * (y * y + 1.0));
  });
  Unary(r, "arcsin", "Inverse sine, in [-pi/2, pi/2].").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / Sqrt(1.0 - x * x));
  });
  Unary(r, "arccos", "Inverse cosine, in [0, pi].").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, -(g.output_grad(0) / Sqrt(1.0 - x * x)));
  });
  Unary(r, "arctan", "Inverse tangent, in [-pi/2, pi/2].")
      .Saves({"x"})
      .Gradient([](GradContext& g) {
        const Value x = g.input(0);
        g.SetInputGrad(0, g.output_grad(0) / (x * x + 1.0));
      });
  Unary(r, "sinh", "Hyperbolic sine.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) * g.Apply("cosh", {x}));
  });
  Unary(r, "cosh", "Hyperbolic cosine.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) * g.Apply("sinh", {x}));
  });
  Unary(r, "arcsinh", "Inverse hyperbolic sine.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / Sqrt(x * x + 1.0));
  });
  Unary(r, "arccosh", "Inverse hyperbolic cosine.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / Sqrt(x * x - 1.0));
  });
  Unary(r, "arctanh", "Inverse hyperbolic tangent.").Saves({"x"}).Gradient([](GradContext& g) {
    const Value x = g.input(0);
    g.SetInputGrad(0, g.output_grad(0) / (1.0 - x * x));
  });
}

// Of bool and integers, to 10^-decimals, in int64: what the dtype cannot hold wraps around.
Value RoundIntegers(OpContext& c, Value a, int64_t decimals) {
  if (decimals >= 0) return a;
  const auto as = [&c](Value x, Dtype dtype) {
    return x.dtype() == dtype ? x : c.Apply("astype", {x}, {{"dtype", dtype}});
  };
  const Value x = as(a, Dtype::kInt64);
  // Of 10^19 the only multiple that int64 holds is 0.
  if (decimals < -18) return as(x * 0, a.dtype());
  int64_t unit = 1;
  for (; decimals < 0; ++decimals) unit *= 10;
  const Value tens = c.Apply("floor_divide", {x, Scalar(unit)});
  const Value rest = x - tens * Scalar(unit);
  const Value odd = c.Apply("bitwise_and", {tens, 1});
  // Halves go up from an odd multiple.
  const Value up = c.Apply("greater", {rest + odd, Scalar(unit / 2)});
  return as((tens + as(up, Dtype::kInt64)) * Scalar(unit), a.dtype());
}

void RegisterRounding(OpRegistry& r) {
  Unary(r, "floor", "The greatest integer that is not above x.");
  Unary(r, "ceil", "The least integer that is not below x.");
  Unary(r, "trunc", "x without its fraction.");
  Unary(r, "rint", "The nearest integer; halves go to the even one.");
  r.Add("around")
      .Doc(
          "x rounded to a number of decimals; halves go to the even one. Integers are rounded to "
          "tens, hundreds, ... by negative decimals, and copied by others.")
      .Alias("round")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("decimals", AttrType::kInt, 0)
      .NoGradient()
      .Compose(rules::Same, [](ComposeContext& c) {
        const Value a = c.input(0);
        const int64_t decimals = c.attr(0).AsInt();
        if (!IsFloat(a.dtype())) return c.SetOutput(0, RoundIntegers(c, a, decimals));
        if (decimals == 0) return c.SetOutput(0, c.Apply("rint", {a}));
        const double unit = std::pow(10.0, std::abs(static_cast<double>(decimals)));
        const Value scaled = decimals > 0 ? a * unit : a / unit;
        const Value rounded = c.Apply("rint", {scaled});
        c.SetOutput(0, decimals > 0 ? rounded / unit : rounded * unit);
      });
}

void RegisterBinary(OpRegistry& r) {
  Binary(r, "arctan2", "The angle of the point (x2, x1), in [-pi, pi].")
      .Saves({"x1", "x2"})
      .Gradient([](GradContext& g) {
        const Value x1 = FloatInput(g, 0);
        const Value x2 = FloatInput(g, 1);
        const Value scaled = g.output_grad(0) / (x1 * x1 + x2 * x2);
        if (g.needs_grad(0)) g.SetInputGrad(0, scaled * x2);
        if (g.needs_grad(1)) g.SetInputGrad(1, -(scaled * x1));
      });
  r.Add("fmod")
      .Doc(
          "The remainder of x1 / x2 with the sign of x1; an integer modulo zero gives 0. Bool is "
          "refused.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Elementwise(rules::ArithmeticNoBool)
      .Saves({"x1", "x2"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.output_grad(0));
        if (!g.needs_grad(1)) return;
        const Value quotient = g.Apply("trunc", {FloatInput(g, 0) / FloatInput(g, 1)});
        g.SetInputGrad(1, -(g.output_grad(0) * quotient));
      });
  Binary(r, "hypot", "sqrt(x1 * x1 + x2 * x2), without overflow.")
      .Saves({"x1", "x2", "y"})
      .Gradient([](GradContext& g) {
        const Value scaled = g.output_grad(0) / g.output(0);
        if (g.needs_grad(0)) g.SetInputGrad(0, scaled * g.input(0));
        if (g.needs_grad(1)) g.SetInputGrad(1, scaled * g.input(1));
      });
  Binary(r, "logaddexp", "log(exp(x1) + exp(x2)), without overflow.")
      .Saves({"x1", "x2", "y"})
      .Gradient([](GradContext& g) {
        for (int i = 0; i < 2; ++i) {
          if (!g.needs_grad(i)) continue;
          g.SetInputGrad(i, g.output_grad(0) * g.Apply("exp", {g.input(i) - g.output(0)}));
        }
      });
  Binary(r, "copysign", "The magnitude of x1 with the sign of x2.")
      .Saves({"x1", "y"})
      .Gradient([](GradContext& g) {
        const Value same = g.Apply("equal", {FloatInput(g, 0), g.output(0)});
        g.SetInputGrad(0, g.Apply("where", {same, g.output_grad(0), -g.output_grad(0)}));
        if (g.needs_grad(1)) g.SetInputGrad(1, g.output_grad(0) * 0.0);
      });
}

absl::Status BitsRule(InferContext& c) {
  const Dtype dtype = rules::PromoteInputs(c, 0);
  if (!IsFloat(dtype)) return rules::Arithmetic(c);
  return DtypeError("[", c.name(), "] expects bool or integers, got ", DtypeName(dtype));
}

absl::Status InPlaceIntegersRule(InferContext& c) {
  const Dtype dtype = rules::PromoteInputs(c, 0);
  if (IsInt(dtype)) return rules::InPlaceArithmeticNoBool(c);
  return DtypeError("[", c.name(), "] expects integers, got ", DtypeName(dtype));
}

absl::Status InPlaceBitsRule(InferContext& c) {
  const Dtype dtype = rules::PromoteInputs(c, 0);
  if (!IsFloat(dtype)) return rules::InPlaceArithmetic(c);
  return DtypeError("[", c.name(), "] expects bool or integers, got ", DtypeName(dtype));
}

void RegisterBits(OpRegistry& r) {
  const auto binary = [&r](const std::string& name, const char* doc, InferFn rule,
                           InferFn in_place) {
    r.Add(name).Doc(doc).Inputs({"x1|scalar", "x2|scalar"}).Outputs({"y"}).Elementwise(rule);
    r.Add(name + "_")
        .Doc("The in-place form of " + name + ".")
        .Inputs({"a", "b|scalar"})
        .Infer(in_place)
        .InPlace(name)
        .Internal();
  };
  binary("bitwise_and", "The bits set in both.", BitsRule, InPlaceBitsRule);
  binary("bitwise_or", "The bits set in either.", BitsRule, InPlaceBitsRule);
  binary("bitwise_xor", "The bits set in exactly one.", BitsRule, InPlaceBitsRule);
  binary("left_shift", "x1 * 2**x2, of x1's dtype: zeros come in from the right.", rules::Shift,
         InPlaceIntegersRule);
  binary("right_shift",
         "floor(x1 / 2**x2), of x1's dtype: copies of the sign come in from the left.",
         rules::Shift, InPlaceIntegersRule);
  r.Add("invert")
      .Doc("The bits that are not set; for bool, logical not.")
      .Alias("bitwise_not")
      .Inputs({"x"})
      .Outputs({"y"})
      .NoGradient()
      .Compose(
          [](InferContext& c) -> absl::Status {
            if (!IsFloat(c.input(0).dtype)) return rules::Same(c);
            return DtypeError("[invert] expects bool or integers, got ",
                              DtypeName(c.input(0).dtype));
          },
          [](ComposeContext& c) {
            const Value x = c.input(0);
            c.SetOutput(0, IsBool(x.dtype()) ? c.Apply("logical_not", {x})
                                             : c.Apply("bitwise_xor", {x, -1}));
          });
}

absl::Status TestRule(InferContext& c) { return c.AddOutput(Dtype::kBool, c.input(0).shape); }

void RegisterTests(OpRegistry& r) {
  const auto test = [&r](const char* name, const char* doc) {
    r.Add(name).Doc(doc).Inputs({"x"}).Outputs({"y"}).Elementwise(TestRule);
  };
  test("isnan", "Whether x is not a number.");
  test("isinf", "Whether x is infinite.");
  test("isfinite", "Whether x is neither infinite nor NaN.");
}

void RegisterComposed(OpRegistry& r) {
  r.Add("fabs")
      .Doc("Absolute value. Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::FloatUnary, [](ComposeContext& c) {
        Value x = c.input(0);
        if (!IsFloat(x.dtype())) x = c.Apply("astype", {x}, {{"dtype", Dtype::kFloat32}});
        c.SetOutput(0, c.Apply("abs", {x}));
      });
  r.Add("reciprocal")
      .Doc("1 / x. Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::FloatUnary, [](ComposeContext& c) {
        Value x = c.input(0);
        if (!IsFloat(x.dtype())) x = c.Apply("astype", {x}, {{"dtype", Dtype::kFloat32}});
        c.SetOutput(0, 1.0 / x);
      });
  r.Add("deg2rad")
      .Doc("Degrees to radians. Integers give float32.")
      .Alias("radians")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::FloatUnary,
               [](ComposeContext& c) { c.SetOutput(0, c.input(0) * 0.017453292519943295); });
  r.Add("rad2deg")
      .Doc("Radians to degrees. Integers give float32.")
      .Alias("degrees")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::FloatUnary,
               [](ComposeContext& c) { c.SetOutput(0, c.input(0) * 57.295779513082323); });
  const auto ignoring_nan = [&r](const char* name, const char* doc, ComposeFn compose) {
    r.Add(name).Doc(doc).Inputs({"x1", "x2"}).Outputs({"y"}).Compose(rules::Arithmetic, compose);
  };
  ignoring_nan("fmax", "The greater of both, or the one that is not NaN.", [](ComposeContext& c) {
    const Value other = c.Apply("where", {c.Apply("isnan", {c.input(0)}), c.input(1), c.input(0)});
    const Value one = c.Apply("where", {c.Apply("isnan", {c.input(1)}), other, c.input(1)});
    c.SetOutput(0, c.Apply("maximum", {other, one}));
  });
  ignoring_nan("fmin", "The lesser of both, or the one that is not NaN.", [](ComposeContext& c) {
    const Value other = c.Apply("where", {c.Apply("isnan", {c.input(0)}), c.input(1), c.input(0)});
    const Value one = c.Apply("where", {c.Apply("isnan", {c.input(1)}), other, c.input(1)});
    c.SetOutput(0, c.Apply("minimum", {other, one}));
  });
}

}  // namespace

void RegisterMath(OpRegistry& r) {
  RegisterExponential(r);
  RegisterTrigonometric(r);
  RegisterRounding(r);
  RegisterBinary(r);
  RegisterBits(r);
  RegisterTests(r);
  RegisterComposed(r);
}

}  // namespace chx
