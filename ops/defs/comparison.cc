// More of NumPy's elementwise functions: what ChainerX's users miss beyond ops/defs/math.cc.
#include "ops/defs/groups.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLn2 = 0.69314718055994530942;

Value Cast(Value x, Dtype dtype) {
  return x.dtype() == dtype ? x : x.context()->Apply("astype", {x}, {{"dtype", dtype}});
}

Value Where(Value condition, Value x, Value y) {
  return condition.context()->Apply("where", {condition, x, y});
}

// x * factor, where x may be a scalar.
Value Times(Value x, double factor) {
  return x.is_scalar() ? Value(x.scalar().AsDouble() * factor) : x * factor;
}

Dtype FloatOf(Dtype dtype) { return IsFloat(dtype) ? dtype : Dtype::kFloat32; }

absl::Status IntegersRule(InferContext& c) {
  const Dtype dtype = rules::PromoteInputs(c, 0);
  if (IsInt(dtype)) return rules::Arithmetic(c);
  return DtypeError("[", c.name(), "] expects integers, got ", DtypeName(dtype));
}

// Kernels compute float16 in float32, where the next number is another one.
absl::Status NextafterRule(InferContext& c) {
  if (rules::PromoteInputs(c, 0) != Dtype::kFloat16) return rules::TrueDivide(c);
  return DtypeError("[nextafter] expects float32 or float64, got float16");
}

absl::Status DoubleRule(InferContext& c) {
  Shape shape;
  CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
  return c.AddOutput(Dtype::kFloat64, shape);
}

void Heaviside(ComposeContext& c) {
  const Value x1 = c.input(0);
  const Value x2 = c.input(1);
  Dtype dtype = FloatOf(x1.dtype());
  if (x2.is_array()) dtype = FloatOf(PromoteTypes(x1.dtype(), x2.dtype()));
  const Value x = Cast(x1, dtype);
  const Value step = Cast(c.Apply("greater", {x, 0}), dtype);
  const Value y = Where(c.Apply("equal", {x, 0}), x2, step);
  c.SetOutput(0, Where(c.Apply("isnan", {x}), x, y));
}

// At 0 the quotient is not computed: its gradient would be NaN.
void Sinc(ComposeContext& c) {
  const Value x = Cast(c.input(0), FloatOf(c.input(0).dtype())) * kPi;
  const Value is_zero = c.Apply("equal", {x, 0});
  const Value divisor = Where(is_zero, 1, x);
  c.SetOutput(0, Where(is_zero, 1, c.Apply("sin", {divisor}) / divisor));
}

void RegisterIntegers(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"x1|scalar", "x2|scalar"})
        .Outputs({"y"})
        .Elementwise(IntegersRule);
  };
  add("gcd", "The greatest common divisor of integers; that of 0 and 0 is 0.");
  add("lcm", "The least common multiple of integers, wrapping around; 0 if one is 0.");
}

void RegisterFloats(OpRegistry& r) {
  r.Add("cbrt")
      .Doc("The real cube root. Integers give float32.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Elementwise(rules::FloatUnary)
      .Saves({"y"})
      .Gradient([](GradContext& g) {
        const Value y = g.output(0);
        g.SetInputGrad(0, g.output_grad(0) / (y * y * 3.0));
      });
  r.Add("nextafter")
      .Doc("The next float after x1 towards x2. Integers give float32; not for float16.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Elementwise(NextafterRule);
  r.Add("sinc")
      .Doc("sin(pi x) / (pi x), and 1 at 0, where second derivatives are taken to be 0.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::FloatUnary, Sinc);
  r.Add("heaviside")
      .Doc("0 where x1 is negative, x2 where it is 0, 1 where it is positive; NaN stays.")
      .Inputs({"x1", "x2|scalar"})
      .Outputs({"y"})
      .Compose(rules::TrueDivide, Heaviside);
  r.Add("logaddexp2")
      .Doc("log2(2**x1 + 2**x2), without overflow. Integers give float32.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Compose(rules::TrueDivide, [](ComposeContext& c) {
        const Value x1 = c.input(0);
        const Value x2 = c.input(1);
        const Dtype dtype = FloatOf(!x1.is_array()   ? x2.dtype()
                                    : !x2.is_array() ? x1.dtype()
                                                     : PromoteTypes(x1.dtype(), x2.dtype()));
        // Each step in the result's dtype at least: float16 would be rounded after each.
        const Dtype wide = PromoteTypes(dtype, Dtype::kFloat32);
        const auto scaled = [wide](Value x) {
          return Times(x.is_array() ? Cast(x, wide) : x, kLn2);
        };
        const Value sum = c.Apply("logaddexp", {scaled(x1), scaled(x2)});
        c.SetOutput(0, Cast(sum * (1 / kLn2), dtype));
      });
  r.Add("float_power")
      .Doc("x1 to the power of x2, in float64.")
      .Inputs({"x1|scalar", "x2|scalar"})
      .Outputs({"y"})
      .Compose(DoubleRule, [](ComposeContext& c) {
        const auto wide = [](Value x) {
          return x.is_scalar() ? Value(x.scalar().AsDouble()) : Cast(x, Dtype::kFloat64);
        };
        c.SetOutput(0, c.Apply("power", {wide(c.input(0)), wide(c.input(1))}));
      });
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
  r.Add("positive")
      .Doc("A copy of x, which is not bool.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Compose(rules::SameNoBool,
               [](ComposeContext& c) { c.SetOutput(0, c.Apply("copy", {c.input(0)})); });
}

}  // namespace

void RegisterUfuncs(OpRegistry& r) {
  RegisterIntegers(r);
  RegisterFloats(r);
}

}  // namespace chx
