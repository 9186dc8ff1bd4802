// chx.linalg: systems of equations and decompositions of matrices, stacked along leading axes.
#include <algorithm>

#include "ops/defs/groups.h"
#include "ops/op_context.h"
#include "ops/rules.h"

namespace chx {
namespace {

constexpr int kQrReduced = 0;
constexpr int kQrComplete = 1;
constexpr int kQrR = 2;
constexpr int kQrRaw = 3;

// Floats, of 2 dimensions or more. float16 is computed in float32.
absl::Status CheckMatrices(const InferContext& c, const ArraySpec& a) {
  if (!IsFloat(a.dtype)) {
    return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(a.dtype));
  }
  if (a.ndim() < 2) {
    return DimensionError("[", c.name(), "] expects matrices, of 2 dimensions or more, got ",
                          a.shape.ToString());
  }
  return absl::OkStatus();
}

absl::Status CheckSquare(const InferContext& c, const ArraySpec& a) {
  CHX_RETURN_IF_ERROR(CheckMatrices(c, a));
  if (a.shape.back() == a.shape[a.ndim() - 2]) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects square matrices, got ", a.shape.ToString());
}

// The leading axes of `shape`, then `dims`.
Shape Stacked(const Shape& shape, std::initializer_list<int64_t> dims) {
  Shape result(shape.span().subspan(0, shape.size() - 2));
  for (const int64_t dim : dims) result.push_back(dim);
  return result;
}

absl::Status SameSquareRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckSquare(c, c.input(0)));
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

// Whether solve takes b as vectors: it has one dimension less than a.
bool SolvesVectors(const ArraySpec& a, const ArraySpec& b) { return b.ndim() == a.ndim() - 1; }

absl::Status SolveRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const ArraySpec& b = c.input(1);
  CHX_RETURN_IF_ERROR(CheckSquare(c, a));
  const bool vectors = SolvesVectors(a, b);
  Shape shape(a.shape.span().subspan(0, a.ndim() - 2));
  const int own = vectors ? 1 : 2;
  if (b.ndim() < own || b.shape[b.ndim() - own] != a.shape.back() ||
      !BroadcastInto(&shape, Shape(b.shape.span().subspan(0, b.ndim() - own)))) {
    return DimensionError("[solve] expects right sides of ", a.shape.back(),
                          " rows that broadcast against the matrices, got ", a.shape.ToString(),
                          " and ", b.shape.ToString());
  }
  if (!IsFloat(b.dtype)) return DtypeError("[solve] expects floats, got ", DtypeName(b.dtype));
  for (int i = own; i > 0; --i) shape.push_back(b.shape[b.ndim() - i]);
  const Dtype dtype = PromoteTypes(a.dtype, b.dtype);
  c.CastInputs(dtype);
  return c.AddOutput(dtype, shape);
}

// a; full_matrices, compute_uv. Without vectors the only output is s.
absl::Status SvdRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_RETURN_IF_ERROR(CheckMatrices(c, a));
  const int64_t m = a.shape[a.ndim() - 2];
  const int64_t n = a.shape.back();
  const int64_t k = std::min(m, n);
  const bool full = c.attr(0).AsBool();
  const bool vectors = c.attr(1).AsBool();
  if (vectors) {
    CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Stacked(a.shape, {m, full ? m : k})));
  }
  CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Stacked(a.shape, {k})));
  return vectors ? c.AddOutput(a.dtype, Stacked(a.shape, {full ? n : k, n})) : absl::OkStatus();
}

absl::Status QrRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_RETURN_IF_ERROR(CheckMatrices(c, a));
  const int64_t m = a.shape[a.ndim() - 2];
  const int64_t n = a.shape.back();
  const int64_t k = std::min(m, n);
  const int64_t mode = c.attr(0).AsInt();
  if (mode == kQrRaw) {
    CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Stacked(a.shape, {n, m})));
    return c.AddOutput(a.dtype, Stacked(a.shape, {k}));
  }
  const int64_t columns = mode == kQrComplete ? m : k;
  if (mode != kQrR) CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Stacked(a.shape, {m, columns})));
  return c.AddOutput(a.dtype, Stacked(a.shape, {columns, n}));
}

absl::Status EighRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_RETURN_IF_ERROR(CheckSquare(c, a));
  CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Stacked(a.shape, {a.shape.back()})));
  return c.AddOutput(a.dtype, a.shape);
}

absl::Status EigvalshRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_RETURN_IF_ERROR(CheckSquare(c, a));
  return c.AddOutput(a.dtype, Stacked(a.shape, {a.shape.back()}));
}

absl::Status PinvRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  CHX_RETURN_IF_ERROR(CheckMatrices(c, a));
  return c.AddOutput(a.dtype, Stacked(a.shape, {a.shape.back(), a.shape[a.ndim() - 2]}));
}

// `outputs` numbers for each matrix.
absl::Status NumberRule(InferContext& c, int outputs) {
  const ArraySpec& a = c.input(0);
  CHX_RETURN_IF_ERROR(CheckSquare(c, a));
  for (int i = 0; i < outputs; ++i) {
    CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Stacked(a.shape, {})));
  }
  return absl::OkStatus();
}

// --- What gradients are made of ---

Value T(Value x) {
  Ints axes;
  for (int i = 0; i < x.ndim(); ++i) axes.push_back(i);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return x.context()->Apply("transpose", {x}, {{"axes", AttrValue(axes)}});
}

Value MatMul(Value a, Value b) { return a.context()->Apply("matmul", {a, b}); }

Value ExpandDims(Value x, int64_t axis) {
  return x.context()->Apply("expand_dims", {x}, {{"axis", axis}});
}

Value Eye(OpContext& c, int64_t n, Dtype dtype) {
  return c.Apply("eye", {}, {{"N", n}, {"dtype", dtype}});
}

// Ones below the diagonal.
Value StrictlyLower(OpContext& c, int64_t n, Dtype dtype) {
  const Value index = c.Apply("arange", {}, {{"start", Scalar(n)}});
  const Value lower = c.Apply("greater", {ExpandDims(index, -1), index});
  return c.Apply("astype", {lower}, {{"dtype", dtype}});
}

Value Symmetric(Value x) { return (x + T(x)) * 0.5; }

// x_j - x_i off the diagonal, inverted; zero on it.
Value InverseGaps(OpContext& c, Value x) {
  const Value eye = Eye(c, x.shape().back(), x.dtype());
  return (Value(1) - eye) / (ExpandDims(x, -2) - ExpandDims(x, -1) + eye);
}

// matrix with its columns scaled by `factors`.
Value ScaleColumns(Value matrix, Value factors) { return matrix * ExpandDims(factors, -2); }

Value As(Value x, Dtype dtype) {
  return x.dtype() == dtype ? x : x.context()->Apply("astype", {x}, {{"dtype", dtype}});
}

// What is composed of several operators is rounded once, at its end.
Value Wide(Value x) { return As(x, PromoteTypes(x.dtype(), Dtype::kFloat32)); }

Value Inverse(Value a) { return a.context()->Apply("inv", {a}); }

Value Sum(Value x, std::initializer_list<int64_t> axes) {
  return x.context()->Apply("sum", {x}, {{"axis", AttrValue(Ints(axes))}});
}

absl::Status NoGradientHere(absl::string_view message) {
  return MakeError(ErrorKind::kNotImplemented, message);
}

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

void InvCompose(ComposeContext& c) {
  const Value a = c.input(0);
  Ints shape(a.ndim(), 1);  // as many dimensions as a: columns, not vectors
  shape[a.ndim() - 2] = shape[a.ndim() - 1] = a.shape().back();
  const Value eye = Eye(c, a.shape().back(), a.dtype());
  c.SetOutput(0, c.Apply("solve", {a, c.Apply("reshape", {eye}, {{"newshape", shape}})}));
}

void InvGradient(GradContext& g) {
  const Value inverse = T(g.output(0));
  g.SetInputGrad(0, -MatMul(MatMul(inverse, g.output_grad(0)), inverse));
}

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
  const Value used = As(t.used, t.s.dtype());
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
  g.SetInputGrad(0, As(ga, g.input(0).dtype()));
}

// Up to this rcond what is cut off is taken for rounding errors, of zero, which leaves the rank
// constant: Golub and Pereyra, "The differentiation of pseudo-inverses", 1973. That needs no
// singular values, and so holds with equal ones in the second order too.
constexpr double kRoundingRcond = 1e-4;

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
    c.SetOutput(0, As(T(a), c.input(0).dtype()));
    return;
  }
  const TruncatedSvd t(c, a, c.attr(0).AsFloat());
  const Value y = MatMul(T(t.vh), ExpandDims(t.inverse, -1) * T(t.u));
  c.SetOutput(0, As(y, c.input(0).dtype()));
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

// By a QR decomposition: Q is a product of reflections, one for each tau that is not zero.
void SlogdetCompose(ComposeContext& c) {
  const Value a = Wide(c.input(0));
  const Dtype dtype = c.input(0).dtype();
  const int64_t n = a.shape().back();
  const Value h = c.Apply("qr", {a}, {{"mode", kQrRaw}});
  const Value tau(h.context(), h.id() + 1);
  const Value on_diagonal = c.Apply("astype", {Eye(c, n, a.dtype())}, {{"dtype", Dtype::kBool}});
  const Value diagonal = Sum(c.Apply("where", {on_diagonal, h, 0}), {-1});
  const Value negative = Sum(c.Apply("less", {diagonal, 0}), {-1});
  const Value reflections = Sum(c.Apply("not_equal", {tau, 0}), {-1});
  const Value odd = c.Apply("remainder", {negative + reflections, 2});
  const Value sign = c.Apply("astype", {Value(1) - odd * 2}, {{"dtype", dtype}});
  const Value zeros = Sum(c.Apply("equal", {diagonal, 0}), {-1});
  c.SetOutput(0, c.Apply("where", {c.Apply("equal", {zeros, 0}), sign, 0}));
  c.SetOutput(1, As(Sum(c.Apply("log", {c.Apply("abs", {diagonal})}), {-1}), dtype));
}

void SlogdetGradient(GradContext& g) {
  const Value gy = g.output_grad(1);
  const Value a = g.input(0);
  if (gy.absent()) {
    g.SetInputGrad(0, a * 0.0);
    return;
  }
  g.SetInputGrad(0, T(Inverse(a)) * ExpandDims(ExpandDims(gy, -1), -1));
}

void DetCompose(ComposeContext& c) {
  const Value sign = c.Apply("slogdet", {Wide(c.input(0))});
  const Value log(sign.context(), sign.id() + 1);
  c.SetOutput(0, As(sign * c.Apply("exp", {log}), c.input(0).dtype()));
}

void DetGradient(GradContext& g) {
  const Value scale = g.output(0) * g.output_grad(0);
  g.SetInputGrad(0, T(Inverse(g.input(0))) * ExpandDims(ExpandDims(scale, -1), -1));
}

absl::Status MatrixPowerRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(SameSquareRule(c));
  const int64_t n = c.attr(0).AsInt();
  // Each doubling is a product.
  if (n >= -INT32_MAX && n <= INT32_MAX) return absl::OkStatus();
  return ValueError("[matrix_power] expects an exponent below 2^31, got ", n);
}

void MatrixPowerCompose(ComposeContext& c) {
  int64_t n = c.attr(0).AsInt();
  Value power = n < 0 ? Inverse(Wide(c.input(0))) : Wide(c.input(0));
  n = n < 0 ? -n : n;
  Value result;
  for (; n > 0; n >>= 1) {
    if ((n & 1) != 0) result = result.absent() ? power : MatMul(result, power);
    if (n > 1) power = MatMul(power, power);
  }
  if (result.absent()) {
    const Value eye = Eye(c, power.shape().back(), power.dtype());
    // In the graph as every other power, with a gradient of zeros.
    const Value never =
        c.Apply("zeros", {}, {{"shape", AttrValue(Ints{})}, {"dtype", Dtype::kBool}});
    result = c.Apply("where", {never, power, eye});
  }
  c.SetOutput(0, c.Apply("copy", {As(result, c.input(0).dtype())}));
}

}  // namespace

void RegisterDecompositions(OpRegistry& r) {
  const auto plain = [&r](const char* name, const char* doc) -> OpDef& {
    return r.Add(name).Doc(doc).Module("linalg");
  };
  const auto add = [&plain](const char* name, const char* doc) -> OpDef& {
    return plain(name, doc).Checked();
  };
  const auto uplo = [](OpDef& op) -> OpDef& { return op.Choice("UPLO", {"L", "U", "l", "u"}, 0); };
  add("solve",
      "x with a x = b. b holds columns, or vectors if it has one dimension less than a; leading "
      "axes broadcast. A singular matrix is an error.")
      .Inputs({"a", "b"})
      .Outputs({"x"})
      .Infer(SolveRule)
      .Saves({"a", "x"})
      .Gradient(SolveGradient);
  add("inv", "Inverse matrix. A singular matrix is an error.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Compose(SameSquareRule, InvCompose)
      .Saves({"y"})
      .Gradient(InvGradient);
  add("svd",
      "Singular value decomposition a = u diag(s) vh, as (u, s, vh), or s alone without "
      "compute_uv. Gradient with compute_uv and without full_matrices.")
      .Inputs({"a"})
      .Outputs({"usvh..."})
      .Tuple()
      .Attr("full_matrices", AttrType::kBool, true)
      .Attr("compute_uv", AttrType::kBool, true)
      .Infer(SvdRule)
      .Saves({"usvh"})
      .Gradient(SvdGradient);
  add("pinv", "Pseudo-inverse, where singular values up to rcond times the largest count as zero.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("rcond", AttrType::kFloat, 1e-15)
      .Compose(PinvRule, PinvCompose)
      .Saves({"a", "y"})
      .Gradient(PinvGradient);
  add("qr",
      "a = q r as (q, r): q is orthogonal and r upper triangular. 'complete': q is square; 'r': r "
      "alone; 'raw': LAPACK's (h, tau). Gradient for a square r.")
      .Inputs({"a"})
      .Outputs({"qr..."})
      .Tuple()
      .Choice("mode", {"reduced", "complete", "r", "raw"}, kQrReduced)
      .Infer(QrRule)
      .Saves({"qr"})
      .Gradient(QrGradient);
  add("cholesky",
      "Lower triangular l with a = l l^T; reads the lower half of a. A matrix that is not positive "
      "definite is an error. The gradient is symmetric.")
      .Inputs({"a"})
      .Outputs({"l"})
      .Infer(SameSquareRule)
      .Saves({"l"})
      .Gradient(CholeskyGradient);
  uplo(add("eigh",
           "Eigenvalues in ascending order and eigenvectors (columns) of symmetric matrices, as "
           "(w, v); reads the half that UPLO names. The gradient is symmetric.")
           .Inputs({"a"})
           .Outputs({"w", "v"}))
      .Infer(EighRule)
      .Saves({"w", "v"})
      .Gradient(EighGradient);
  uplo(add("eigvalsh", "Eigenvalues of symmetric matrices in ascending order; see eigh.")
           .Inputs({"a"})
           .Outputs({"w"}))
      .Infer(EigvalshRule)
      .Saves({"a"})
      .Gradient(EigvalshGradient);
  plain("slogdet", "Sign and logarithm of the absolute value of the determinant, as (sign, log).")
      .Inputs({"a"})
      .Outputs({"sign", "log"})
      .Compose([](InferContext& c) { return NumberRule(c, 2); }, SlogdetCompose)
      .Saves({"a"})
      .Gradient(SlogdetGradient);
  plain("det", "Determinant. Its gradient needs matrices that are not singular.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Compose([](InferContext& c) { return NumberRule(c, 1); }, DetCompose)
      .Saves({"a", "y"})
      .Gradient(DetGradient);
  add("matrix_power", "Product of n copies of a matrix; of its inverse for negative n.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("n", AttrType::kInt)
      .Compose(MatrixPowerRule, MatrixPowerCompose);
}

}  // namespace chx
