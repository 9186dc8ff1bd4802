// Elementwise comparisons, logic and bits, tests of values, and where().
#include <string>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

OpDef& Binary(OpRegistry& r, const std::string& name, const char* doc) {
  return r.Add(name).Doc(doc).Inputs({"x1|scalar", "x2|scalar"}).Outputs({"y"});
}

void RegisterComparisons(OpRegistry& r) {
  const auto comparison = [&r](const char* name, const char* doc) {
    Binary(r, name, doc).Elementwise(rules::Comparison);
  };
  comparison("equal", "x1 == x2, as bool.");
  comparison("not_equal", "x1 != x2, as bool.");
  comparison("greater", "x1 > x2, as bool.");
  comparison("greater_equal", "x1 >= x2, as bool.");
  comparison("less", "x1 < x2, as bool.");
  comparison("less_equal", "x1 <= x2, as bool.");
}

void RegisterLogic(OpRegistry& r) {
  r.Add("logical_not")
      .Doc("Whether x is zero.")
      .Inputs({"x"})
      .Outputs({"y"})
      .Elementwise(rules::LogicalUnary);
  Binary(r, "logical_and", "Whether both are non-zero.").Elementwise(rules::Logical);
  Binary(r, "logical_or", "Whether either is non-zero.").Elementwise(rules::Logical);
  Binary(r, "logical_xor", "Whether exactly one is non-zero.").Elementwise(rules::Logical);
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
    Binary(r, name, doc).Elementwise(rule);
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

Value IsClose(ComposeContext& c) {
  const Dtype dtype = AtLeastFloat(PromoteTypes(c.input(0).dtype(), c.input(1).dtype()));
  const Value a = Cast(c.input(0), dtype);
  const Value b = Cast(c.input(1), dtype);
  const Value bound = c.Apply("abs", {b}) * c.attr(0).AsFloat() + c.attr(1).AsFloat();
  const Value near = c.Apply("less_equal", {c.Apply("abs", {a - b}), bound});
  // Every number is within an infinite bound: only equal ones are close then.
  const Value finite = c.Apply("logical_and", {near, c.Apply("isfinite", {b})});
  const Value close = c.Apply("logical_or", {finite, c.Apply("equal", {a, b})});
  if (!c.attr(2).AsBool()) return close;
  return c.Apply("logical_or",
                 {close, c.Apply("logical_and", {c.Apply("isnan", {a}), c.Apply("isnan", {b})})});
}

void RegisterCloseness(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule, ComposeFn compose) {
    r.Add(name)
        .Doc(doc)
        .Inputs({"a", "b"})
        .Outputs({"y"})
        .Attr("rtol", AttrType::kFloat, 1e-5)
        .Attr("atol", AttrType::kFloat, 1e-8)
        .Attr("equal_nan", AttrType::kBool, false)
        .NoGradient()
        .Compose(rule, compose);
  };
  add("isclose", "abs(a - b) <= atol + rtol * abs(b), elementwise; equal infinities are close.",
      rules::Comparison, [](ComposeContext& c) { c.SetOutput(0, IsClose(c)); });
  add(
      "allclose", "Whether all elements are close, as a 0-d bool.",
      [](InferContext& c) -> absl::Status {
        Shape shape;
        CHX_RETURN_IF_ERROR(rules::BroadcastInputs(c, 0, &shape));
        return c.AddOutput(Dtype::kBool, {});
      },
      [](ComposeContext& c) { c.SetOutput(0, c.Apply("all", {IsClose(c)})); });
}

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

void RegisterWhere(OpRegistry& r) {
  r.Add("where")
      .Doc("x where condition holds, y elsewhere. The condition is cast to bool.")
      .Inputs({"condition", "x|scalar", "y|scalar"})
      .Outputs({"z"})
      .Elementwise(WhereRule)
      .ConstantInputs({"condition"})
      .Saves({"condition"})
      .Gradient(WhereGradient);
}

}  // namespace

void RegisterComparison(OpRegistry& r) {
  RegisterComparisons(r);
  RegisterLogic(r);
  RegisterBits(r);
  RegisterTests(r);
  RegisterCloseness(r);
  RegisterWhere(r);
}

}  // namespace chx
