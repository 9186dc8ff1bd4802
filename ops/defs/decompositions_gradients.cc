// Gradients of the operators in decompositions.cc. They are made of operators that have gradients.
#include "ops/defs/decompositions.h"

#include "absl/strings/str_cat.h"
#include "ops/defs/common/matrices.h"
#include "ops/error.h"

namespace chx {
namespace {

using matrices::Eye;
using matrices::Inverse;
using matrices::InverseGaps;
using matrices::MatMul;
using matrices::ScaleColumns;
using matrices::StrictlyLower;
using matrices::Symmetric;
using matrices::T;

absl::Status NoGradientHere(absl::string_view message) {
  return MakeError(ErrorKind::kNotImplemented, message);
}

}  // namespace

void SolveGradient(GradContext& g) {
  const bool vectors = SolvesVectors(g.input_spec(0), g.input_spec(1));
  const Value gy = vectors ? ExpandDims(g.output_grad(0), -1) : g.output_grad(0);
  const Value gb = g.Apply("solve", {T(g.input(0)), gy});
  if (g.needs_grad(0)) {
    const Value x = vectors ? ExpandDims(g.output(0), -1) : g.output(0);
    g.SetInputGrad(0, -MatMul(gb, T(x)));
  }
  if (!g.needs_grad(1)) return;
  g.SetInputGrad(1, vectors ? g.Apply("squeeze", {gb}, {{"axis", AttrValue(Ints{-1})}}) : gb);
}

void InvGradient(GradContext& g) {
  const Value inverse = T(g.output(0));
  g.SetInputGrad(0, -MatMul(MatMul(inverse, g.output_grad(0)), inverse));
}

// Murray, "Differentiation of the Cholesky decomposition", 2016.
void CholeskyGradient(GradContext& g) {
  const Value l = g.output(0);
  const int64_t n = l.shape().back();
  const Value inverse = Inverse(l);
  const Value half = StrictlyLower(g, n, l.dtype()) + Eye(g, n, l.dtype()) * 0.5;
  const Value phi = MatMul(T(l), g.output_grad(0)) * half;
  g.SetInputGrad(0, Symmetric(MatMul(MatMul(T(inverse), phi), inverse)));
}

void EighGradient(GradContext& g) {
  const Value w = g.output(0);
  const Value v = g.output(1);
  const Value gw = g.output_grad(0);
  const Value gv = g.output_grad(1);
  Value inner;
  if (!gv.absent()) inner = MatMul(T(v), gv) * InverseGaps(g, w);
  if (!gw.absent()) {
    const Value diagonal = ExpandDims(gw, -1) * Eye(g, w.shape().back(), w.dtype());
    inner = inner.absent() ? diagonal : inner + diagonal;
  }
  g.SetInputGrad(0, Symmetric(MatMul(MatMul(v, inner), T(v))));
}

void EigvalshGradient(GradContext& g) {
  const Value w = g.Apply("eigh", {g.input(0)}, {{"UPLO", g.attr(0)}});
  const Value v(w.context(), w.id() + 1);
  g.SetInputGrad(0, MatMul(ScaleColumns(v, g.output_grad(0)), T(v)));
}

// Townsend, "Differentiating the singular value decomposition", 2016.
void SvdGradient(GradContext& g) {
  if (g.attr(0).AsBool() || !g.attr(1).AsBool()) {
    g.Fail(
        NoGradientHere("[svd] has a gradient only with full_matrices=False and compute_uv=True"));
    return;
  }
  const Value u = g.output(0);
  const Value s = g.output(1);
  const Value vh = g.output(2);
  const int64_t k = s.shape().back();
  const Value gu = g.output_grad(0);
  const Value gs = g.output_grad(1);
  const Value gvh = g.output_grad(2);
  Value inner = ExpandDims(gs.absent() ? s * 0.0 : gs, -1) * Eye(g, k, s.dtype());
  Value sides;  // what lies outside of the spaces that u and v span
  if (!gu.absent() || !gvh.absent()) {
    const Value gaps = InverseGaps(g, s * s);
    if (!gu.absent()) {
      const Value utgu = MatMul(T(u), gu);
      const Value j = gaps * utgu;
      inner = inner + ScaleColumns(j + T(j), s);
      if (u.shape()[u.ndim() - 2] > k) {
        sides = MatMul(ScaleColumns(gu - MatMul(u, utgu), Value(1) / s), vh);
      }
    }
    if (!gvh.absent()) {
      const Value gv = T(gvh);
      const Value vtgv = MatMul(vh, gv);
      const Value j = gaps * vtgv;
      inner = inner + ExpandDims(s, -1) * (j + T(j));
      if (vh.shape().back() > k) {
        const Value outside = gv - MatMul(T(vh), vtgv);
        const Value side = MatMul(ScaleColumns(u, Value(1) / s), T(outside));
        sides = sides.absent() ? side : sides + side;
      }
    }
  }
  const Value inside = MatMul(MatMul(u, inner), vh);
  g.SetInputGrad(0, sides.absent() ? inside : inside + sides);
}

// Walter, Lehmann and Lamour, "On evaluating higher-order derivatives of the QR decomposition of
// tall matrices with full column rank in forward and reverse mode algorithmic differentiation",
// 2012.
void QrGradient(GradContext& g) {
  const int64_t mode = g.attr(0).AsInt();
  if (mode == kQrR || mode == kQrRaw) {
    g.Fail(NoGradientHere("[qr] has no gradient in the modes 'r' and 'raw'"));
    return;
  }
  const ArraySpec& spec = g.output_spec(1);
  const int64_t n = spec.shape.back();
  if (spec.shape[spec.ndim() - 2] != n) {
    g.Fail(NoGradientHere(
        absl::StrCat("[qr] has a gradient only where R is square, got ", spec.shape.ToString())));
    return;
  }
  const Value q = g.output(0);
  const Value r = g.output(1);
  const Value gq = g.output_grad(0);
  const Value gr = g.output_grad(1);
  Value m;
  if (!gr.absent()) m = MatMul(r, T(gr));
  if (!gq.absent()) {
    const Value qtgq = MatMul(T(gq), q);
    m = m.absent() ? -qtgq : m - qtgq;
  }
  const Value lower = m * StrictlyLower(g, n, r.dtype());
  Value x = MatMul(q, lower + T(lower) + m * Eye(g, n, r.dtype()));
  if (!gq.absent()) x = x + gq;
  g.SetInputGrad(0, T(g.Apply("solve", {r, T(x)})));
}

}  // namespace chx
