// The pseudo-inverse, by singular values, and its gradients.
#include "ops/defs/common/matrices.h"
#include "ops/defs/decompositions.h"

namespace chx {
namespace {

using matrices::MatMul;
using matrices::ScaleColumns;
using matrices::T;
using matrices::Wide;

// u, s and vh of a, and which singular values pinv inverts; `inverse` is 0 for the others.
struct TruncatedSvd {
  TruncatedSvd(OpContext& c, Value a, double rcond)
      : u(c.Apply("svd", {a}, {{"full_matrices", false}})),
        s(u.context(), u.id() + 1),
        vh(u.context(), u.id() + 2) {
    const Value largest = c.Apply("amax", {s}, {{"axis", AttrValue(Ints{-1})}, {"keepdims", true}});
    used = c.Apply("greater", {s, largest * rcond});
    inverse = c.Apply("where", {used, Value(1.0) / c.Apply("where", {used, s, 1}), 0});
  }
  Value u;
  Value s;
  Value vh;
  Value used;
  Value inverse;
};

// Where singular values are cut off that are no rounding errors. With P^T = U f(S) V^T, and
// f(s) = 1 / s for those that are used, 0 for the others, this is the adjoint of that function's
// derivative: Noferini, "A formula for the Frechet derivative of a generalized matrix function",
// 2017.
void TruncatedPinvGradient(GradContext& g) {
  const TruncatedSvd t(g, Wide(g.input(0)), g.attr(0).AsFloat());
  const Value ut = T(t.u);
  const Value v = T(t.vh);
  const Value gyt = T(Wide(g.output_grad(0)));
  const Value used = Cast(t.used, t.s.dtype());
  const Value differ = ExpandDims(used, -1) - ExpandDims(used, -2);
  const Value squares = t.s * t.s;
  const Value gaps = ExpandDims(squares, -1) - ExpandDims(squares, -2);
  const Value either = g.Apply("not_equal", {differ, 0});
  const Value weights = differ / g.Apply("where", {either, gaps, 1});
  const Value cross = ExpandDims(t.inverse, -1) * ExpandDims(t.s, -2);
  const Value both = ExpandDims(t.inverse, -1) * ExpandDims(t.inverse, -2);
  const Value h = MatMul(MatMul(ut, gyt), v);
  const Value inner = weights * h + (weights * (cross + T(cross)) - both) * T(h);
  Value ga = MatMul(MatMul(t.u, inner), t.vh);
  const int64_t k = t.s.shape().back();
  const Value inverse_squares = t.inverse * t.inverse;
  if (t.u.shape()[t.u.ndim() - 2] > k) {
    const Value outside = gyt - MatMul(t.u, MatMul(ut, gyt));
    ga = ga + MatMul(ScaleColumns(MatMul(outside, v), inverse_squares), t.vh);
  }
  if (t.vh.shape().back() > k) {
    const Value outside = gyt - MatMul(MatMul(gyt, v), t.vh);
    ga = ga + MatMul(ScaleColumns(t.u, inverse_squares), MatMul(ut, outside));
  }
  g.SetInputGrad(0, Cast(ga, g.input(0).dtype()));
}

// Up to this rcond what is cut off is taken for rounding errors, of zero, which leaves the rank
// constant: Golub and Pereyra, "The differentiation of pseudo-inverses", 1973. That needs no
// singular values, and so holds with equal ones in the second order too.
constexpr double kRoundingRcond = 1e-4;

}  // namespace

void PinvGradient(GradContext& g) {
  if (NumElements(g.input_spec(0).shape) > 0 && g.attr(0).AsFloat() > kRoundingRcond) {
    TruncatedPinvGradient(g);
    return;
  }
  const Value a = g.input(0);
  const Value y = g.output(0);
  const Value yt = T(y);
  const Value gy = g.output_grad(0);
  const Value gyt = T(gy);
  const Value left = MatMul(gyt, MatMul(y, yt));
  const Value right = MatMul(MatMul(yt, y), gyt);
  g.SetInputGrad(0, left - MatMul(a, MatMul(y, left)) + right - MatMul(MatMul(right, y), a) -
                        MatMul(MatMul(yt, gy), yt));
}

void PinvCompose(ComposeContext& c) {
  const Value a = Wide(c.input(0));
  const Shape& shape = a.shape();
  if (NumElements(shape) == 0) {
    c.SetOutput(0, Cast(T(a), c.input(0).dtype()));
    return;
  }
  const TruncatedSvd t(c, a, c.attr(0).AsFloat());
  const Value y = MatMul(T(t.vh), ExpandDims(t.inverse, -1) * T(t.u));
  c.SetOutput(0, Cast(y, c.input(0).dtype()));
}

}  // namespace chx
