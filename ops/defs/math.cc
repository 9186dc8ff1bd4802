// Elementwise functions: exponentials and logarithms, trigonometry, rounding, and what is
// particular to floating point numbers.
#include <cmath>
#include <limits>
#include <string>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn10 = 2.30258509299404568402;
constexpr double kTwoBySqrtPi = 1.12837916709551257390;

Value Sqrt(Value x) { return x.context()->Apply("sqrt", {x}); }

// x * factor, where x may be a scalar.
Value Times(Value x, double factor) {
  return x.is_scalar() ? Value(x.scalar().AsDouble() * factor) : x * factor;
}

OpDef& Unary(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(std::string(doc) + " Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Elementwise(rules::FloatUnary);
}

OpDef& FloatBinary(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(std::string(doc) + " Integers give float32.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Elementwise(rules::TrueDivide);
}

void RegisterExponentials(OpRegistry& r) {
  Unary(r, "exp", "e to the power of x.").Saves({"y"}).Gradient([](GradContext& g) {
    g.SetInputGrad(0, g.output_grad(0) * g.output(0));
  });
  Unary(r, "expm1", "exp(x) - 1, exact for small x.").Saves({"y"}).Gradient([](GradContext& g) {
    g.SetInputGrad(0, g.output_grad(0) * (g.output(0) + 1.0));
  });
  Unary(r, "log", "Natural logarithm.").Saves({"x"}).Gradient([](GradContext& g) {
    g.SetInputGrad(0, g.output_grad(0) / g.input(0));
  });
  Unary(r, "sqrt", "Square root.").Saves({"y"}).Gradient([](GradContext& g) {
    g.SetInputGrad(0, g.output_grad(0) / (g.output(0) * 2.0));
  });
  Unary(r, "cbrt", "The real cube root.").Saves({"y"}).Gradient([](GradContext& g) {
    const Value y = g.output(0);
    g.SetInputGrad(0, g.output_grad(0) / (y * y * 3.0));
  });
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

// Computes in float32 at least: float16 would be rounded after each step.
void Logaddexp2(ComposeContext& c) {
  const Value x1 = c.input(0);
  const Value x2 = c.input(1);
  const Dtype dtype = AtLeastFloat(!x1.is_array()   ? x2.dtype()
                                   : !x2.is_array() ? x1.dtype()
                                                    : PromoteTypes(x1.dtype(), x2.dtype()));
  const Dtype wide = PromoteTypes(dtype, Dtype::kFloat32);
  const auto scaled = [wide](Value x) { return Times(x.is_array() ? Cast(x, wide) : x, kLn2); };
  const Value sum = c.Apply("logaddexp", {scaled(x1), scaled(x2)});
  c.SetOutput(0, Cast(sum * (1 / kLn2), dtype));
}

void RegisterSumsOfExponentials(OpRegistry& r) {
  FloatBinary(r, "logaddexp", "log(exp(x1) + exp(x2)), without overflow.")
      .Saves({"x1", "x2", "y"})
      .Gradient([](GradContext& g) {
        for (int i = 0; i < 2; ++i) {
          if (!g.needs_grad(i)) continue;
          g.SetInputGrad(i, g.output_grad(0) * g.Apply("exp", {g.input(i) - g.output(0)}));
        }
      });
  r.Add("logaddexp2")
      .Doc("log2(2**x1 + 2**x2), without overflow. Integers give float32.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Compose(rules::TrueDivide, Logaddexp2);
}

// At 0 the quotient is not computed: its gradient would be NaN.
void Sinc(ComposeContext& c) {
  const Value x = FloatInput(c, 0) * kPi;
  const Value is_zero = c.Apply("equal", {x, 0});
  const Value divisor = Where(is_zero, 1, x);
  c.SetOutput(0, Where(is_zero, 1, c.Apply("sin", {divisor}) / divisor));
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
  FloatBinary(r, "arctan2", "The angle of the point (x2, x1), in [-pi, pi].")
      .Saves({"x1", "x2"})
      .Gradient([](GradContext& g) {
        const Value x1 = FloatInput(g, 0);
        const Value x2 = FloatInput(g, 1);
        const Value scaled = g.output_grad(0) / (x1 * x1 + x2 * x2);
        if (g.needs_grad(0)) g.SetInputGrad(0, scaled * x2);
        if (g.needs_grad(1)) g.SetInputGrad(1, -(scaled * x1));
      });
  FloatBinary(r, "hypot", "sqrt(x1 * x1 + x2 * x2), without overflow.")
      .Saves({"x1", "x2", "y"})
      .Gradient([](GradContext& g) {
        const Value scaled = g.output_grad(0) / g.output(0);
        if (g.needs_grad(0)) g.SetInputGrad(0, scaled * g.input(0));
        if (g.needs_grad(1)) g.SetInputGrad(1, scaled * g.input(1));
      });
  r.Add("sinc")
      .Doc("sin(pi x) / (pi x), and 1 at 0, where second derivatives are taken to be 0.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::FloatUnary, Sinc);
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
}

void RegisterHyperbolic(OpRegistry& r) {
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
  Unary(r, "tanh", "Hyperbolic tangent.").Saves({"y"}).Gradient([](GradContext& g) {
    const Value y = g.output(0);
    g.SetInputGrad(0, g.output_grad(0) * (1.0 - y * y));
  });
}

// Rounds bool and integers to multiples of 10^-decimals, in int64. Results that the dtype cannot
// hold wrap around.
Value RoundIntegers(OpContext& c, Value a, int64_t decimals) {
  if (decimals >= 0) return a;
  const Value x = Cast(a, Dtype::kInt64);
  // 0 is the only multiple of 10^19 that int64 holds.
  if (decimals < -18) return Cast(x * 0, a.dtype());
  int64_t unit = 1;
  for (; decimals < 0; ++decimals) unit *= 10;
  const Value tens = c.Apply("floor_divide", {x, Scalar(unit)});
  const Value rest = x - tens * Scalar(unit);
  const Value odd = c.Apply("bitwise_and", {tens, 1});
  // Halves go up from an odd multiple.
  const Value up = c.Apply("greater", {rest + odd, Scalar(unit / 2)});
  return Cast((tens + Cast(up, Dtype::kInt64)) * Scalar(unit), a.dtype());
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

// Narrow floats are refused: kernels compute them in float32, where the next number is another.
absl::Status NextafterRule(InferContext& c) {
  const Dtype dtype = rules::PromoteInputs(c, 0);
  if (!IsNarrowFloat(dtype)) return rules::TrueDivide(c);
  return DtypeError("[nextafter] expects float32 or float64, got ", DtypeName(dtype));
}

void Heaviside(ComposeContext& c) {
  const Value x1 = c.input(0);
  const Value x2 = c.input(1);
  Dtype dtype = AtLeastFloat(x1.dtype());
  if (x2.is_array()) dtype = AtLeastFloat(PromoteTypes(x1.dtype(), x2.dtype()));
  const Value x = Cast(x1, dtype);
  const Value step = Cast(c.Apply("greater", {x, 0}), dtype);
  const Value y = Where(c.Apply("equal", {x, 0}), x2, step);
  c.SetOutput(0, Where(c.Apply("isnan", {x}), x, y));
}

// attrs: nan, posinf, neginf.
void NanToNum(ComposeContext& c) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  const Value x = c.input(0);
  if (!IsFloat(x.dtype())) return c.SetOutput(0, x);
  const double greatest = GreatestOf(x.dtype());
  Value y = c.Apply("maximum", {c.Apply("minimum", {x, greatest}), -greatest});
  for (int i = 1; i <= 2; ++i) {
    if (!c.attr(i).has_value()) continue;
    y = Where(c.Apply("equal", {x, i == 1 ? inf : -inf}), c.attr(i).AsFloat(), y);
  }
  c.SetOutput(0, Where(c.Apply("isnan", {x}), c.attr(0).AsFloat(), y));
}

void RegisterFloatingPoint(OpRegistry& r) {
  FloatBinary(r, "copysign", "The magnitude of x1 with the sign of x2.")
      .Saves({"x1", "y"})
      .Gradient([](GradContext& g) {
        const Value same = g.Apply("equal", {FloatInput(g, 0), g.output(0)});
        g.SetInputGrad(0, Where(same, g.output_grad(0), -g.output_grad(0)));
        if (g.needs_grad(1)) g.SetInputGrad(1, g.output_grad(0) * 0.0);
      });
  r.Add("nextafter")
      .Doc(
          "The next float after x1 towards x2. Integers give float32; not for float16 and "
          "bfloat16.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Elementwise(NextafterRule);
  r.Add("signbit")
      .Doc("Whether x is negative, -0.0 and negative NaNs included.")
      .Inputs({"x"})
      .Outputs({"y"})
      .NoGradient()
      .Compose([](InferContext& c) { return c.AddOutput(Dtype::kBool, c.input(0).shape); },
               [](ComposeContext& c) {
                 Value x = c.input(0);
                 if (IsFloat(x.dtype())) x = c.Apply("copysign", {1.0, x});
                 c.SetOutput(0, c.Apply("less", {x, 0}));
               });
  r.Add("heaviside")
      .Doc("0 where x1 is negative, x2 where it is 0, 1 where it is positive; NaN stays.")
      .Inputs({"x1", "x2|scalar"})
      .Outputs({"y"})
      .Compose(rules::TrueDivide, Heaviside);
  r.Add("nan_to_num")
      .Doc(
          "x with NaN replaced by `nan`, and infinities by `posinf` and `neginf`: by default the "
          "greatest and least finite values.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Attr("nan", AttrType::kFloat, 0.0)
      .Attr("posinf", AttrType::kFloat, AttrValue())
      .Attr("neginf", AttrType::kFloat, AttrValue())
      .Compose(rules::Same, NanToNum);
}

}  // namespace

void RegisterMath(OpRegistry& r) {
  RegisterExponentials(r);
  RegisterSumsOfExponentials(r);
  RegisterTrigonometric(r);
  RegisterHyperbolic(r);
  RegisterRounding(r);
  RegisterFloatingPoint(r);
}

}  // namespace chx
