// The first elements of a sorted axis, without sorting the rest where a backend has a kernel.
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// a; k, axis, largest.
absl::Status TopkRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(c.name(), c.attr(1).AsInt(), a.ndim()));
  const int64_t k = c.attr(0).AsInt();
  if (k < 0 || k > a.shape[axis]) {
    return ValueError("[topk] expects k in [0, ", a.shape[axis], "], got ", k);
  }
  Shape shape = a.shape;
  shape[axis] = k;
  CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, shape));
  return c.AddOutput(Dtype::kInt64, shape);
}

void Topk(ComposeContext& c) {
  const Value a = c.input(0);
  const int axis = rules::NormalizeAxis("topk", c.attr(1).AsInt(), a.ndim()).value_or(0);
  const auto flip = [&](Value x) {
    return c.Apply("flip", {x}, {{"axes", AttrValue(Ints{axis})}});
  };
  const auto argsort = [&](Value x) { return c.Apply("argsort", {x}, {{"axis", axis}}); };
  // From the end, equal elements have the opposite order; so they are turned round before, too.
  const Value order =
      c.attr(2).AsBool() ? Scalar(a.shape()[axis] - 1) - flip(argsort(flip(a))) : argsort(a);
  const Value indices = SliceAxis(order, axis, 0, c.attr(0).AsInt());
  c.SetOutput(0, c.Apply("take_along_axis", {a, indices}, {{"axis", axis}}));
  c.SetOutput(1, indices);
}

}  // namespace

void RegisterSortingTopk(OpRegistry& r) {
  r.Add("topk")
      .Doc(
          "The k largest (or smallest) elements along an axis, in order, and their indices "
          "(int64). "
          "Equal elements keep their order. A NaN is larger than all numbers. The values have a "
          "gradient.")
      .Inputs({"a"})
      .Outputs({"values", "indices"})
      .Attr("k", AttrType::kInt)
      .Attr("axis", AttrType::kInt, -1)
      .Attr("largest", AttrType::kBool, true)
      .Compose(TopkRule, Topk)
      .Saves({"indices"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0,
                       g.Apply("take_along_axis_grad", {g.output_grad(0), g.output(1)},
                               {{"shape", ShapeAttr(g.input_spec(0).shape)}, {"axis", g.attr(1)}}));
      });
}

}  // namespace chx
