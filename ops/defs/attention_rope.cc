// Rotary position embedding (Su et al., "RoFormer", 2021).
#include <cmath>
#include <string>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// x (..., L, D), positions? that broadcast to (..., L), frequencies? (D / 2); base, interleaved.
absl::Status RopeRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  if (x.ndim() < 2 || x.ndim() == kMaxNdim || x.shape.back() % 2 != 0) {
    return DimensionError("[", c.name(),
                          "] expects x of shape (..., length, features), of at most ", kMaxNdim - 1,
                          " dimensions and an even number of features, got ", x.shape.ToString());
  }
  if (c.has_array(1)) {
    const ArraySpec& positions = c.input(1);
    bool fits = positions.ndim() < x.ndim() && !IsBool(positions.dtype);
    for (int d = 0; fits && d < positions.ndim(); ++d) {
      const int64_t size = positions.shape[d];
      fits = size == 1 || size == x.shape[x.ndim() - 1 - positions.ndim() + d];
    }
    if (!fits) {
      return DimensionError("[", c.name(), "] expects positions that broadcast to x's shape ",
                            x.shape.ToString(), " without its last dimension, got ",
                            positions.ToString());
    }
  }
  if (c.has_array(2)) {
    const ArraySpec& frequencies = c.input(2);
    if (!IsFloat(frequencies.dtype) || frequencies.shape != Shape({x.shape.back() / 2})) {
      return DimensionError("[", c.name(), "] expects ", x.shape.back() / 2,
                            " frequencies of floats, got ", frequencies.ToString());
    }
  }
  const double base = c.attr(0).AsFloat();
  if (!(base > 0)) return ValueError("[", c.name(), "] expects a positive base, got ", base);
  return c.AddOutput(AtLeastFloat(x.dtype), x.shape);
}

Value Numbers(OpContext& c, int64_t n) {
  return c.Apply("arange", {}, {{"start", Scalar(n)}, {"dtype", Dtype::kFloat64}});
}

// Far from the start an angle has more digits than a float32.
Value AnglesOf(ComposeContext& c, int64_t length, int64_t pairs) {
  const auto given = [&c](int i) { return i < c.num_inputs() && c.input(i).is_array(); };
  const Value positions = given(1) ? Cast(c.input(1), Dtype::kFloat64) : Numbers(c, length);
  const double step = pairs > 0 ? -std::log(c.attr(0).AsFloat()) / static_cast<double>(pairs) : 0;
  const Value frequencies =
      given(2) ? Cast(c.input(2), Dtype::kFloat64) : c.Apply("exp", {Numbers(c, pairs) * step});
  return ExpandDims(positions, -1) * frequencies;
}

template <bool kInverse>
void RopeCompose(ComposeContext& c) {
  const Value x = FloatInput(c, 0);
  const bool interleaved = c.attr(1).AsBool();
  const Dtype dtype = WideDtype(x.dtype());
  const int64_t pairs = x.shape().back() / 2;
  Value angles = AnglesOf(c, x.shape()[x.ndim() - 2], pairs);
  Shape shape = x.shape();
  if (interleaved) {
    angles = ExpandDims(angles, -1);
    shape = Shape(shape.span().first(shape.size() - 1));
    shape.push_back(pairs);
    shape.push_back(2);
  }
  const Value cos = Cast(c.Apply("cos", {angles}), dtype);
  Value sin = Cast(c.Apply("sin", {angles}), dtype);
  if (kInverse) sin = -sin;
  const Value wide = Cast(interleaved ? Reshape(x, shape) : x, dtype);
  const int last = shape.size() - 1;
  const int64_t half = interleaved ? 1 : pairs;
  const Value a = SliceAxis(wide, last, 0, half);
  const Value b = SliceAxis(wide, last, half, 2 * half);
  const Value turned =
      c.Apply("concatenate", {a * cos - b * sin, b * cos + a * sin}, {{"axis", AttrValue(last)}});
  c.SetOutput(0, Cast(interleaved ? Reshape(turned, x.shape()) : turned, x.dtype()));
}

// The other direction is the gradient.
void RopeGradient(GradContext& g) {
  const auto given = [&g](int i) {
    return i < g.num_inputs() && g.input_is_array(i) ? g.input(i) : Value();
  };
  g.SetInputGrad(0, g.Apply(g.op().name == "rope" ? "rope_grad" : "rope",
                            {g.output_grad(0), given(1), given(2)},
                            {{"base", g.attr(0)}, {"interleaved", g.attr(1)}}));
}

template <bool kInverse>
OpDef& AddRope(OpRegistry& r, const std::string& name, const std::string& doc) {
  return r.Add(name)
      .Doc(doc)
      .Inputs({"x", "positions?", "frequencies?"})
      .Outputs({"y"})
      .Attr("base", AttrType::kFloat, 10000.0)
      .Attr("interleaved", AttrType::kBool, false)
      .Compose(RopeRule, RopeCompose<kInverse>)
      .ConstantInputs({"positions", "frequencies"})
      .Saves({"positions", "frequencies"})
      .Gradient(RopeGradient);
}

}  // namespace

void RegisterAttentionRope(OpRegistry& r) {
  AddRope<false>(r, "rope",
                 "Rotary position embedding of x (..., L, D): turns pairs of features by positions "
                 "times frequencies. positions: 0 to L - 1 by default; frequencies: "
                 "base^(-2 i / D). Pairs are i and i + D / 2 or, interleaved, 2 i and 2 i + 1.");
  AddRope<true>(r, "rope_grad", "rope by the opposite angles, which is its gradient.").Internal();
}

}  // namespace chx
