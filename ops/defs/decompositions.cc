// chx.linalg: systems of equations and decompositions of matrices, stacked along leading axes.
#include <algorithm>

#include "ops/defs/common/matrices.h"
#include "ops/defs/decompositions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

using matrices::Eye;
using matrices::Inverse;
using matrices::MatMul;
using matrices::Sum;
using matrices::T;
using matrices::Wide;

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

void InvCompose(ComposeContext& c) {
  const Value a = c.input(0);
  Ints shape(a.ndim(), 1);  // as many dimensions as a: columns, not vectors
  shape[a.ndim() - 2] = shape[a.ndim() - 1] = a.shape().back();
  const Value eye = Eye(c, a.shape().back(), a.dtype());
  c.SetOutput(0, c.Apply("solve", {a, c.Apply("reshape", {eye}, {{"newshape", shape}})}));
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
  c.SetOutput(1, Cast(Sum(c.Apply("log", {c.Apply("abs", {diagonal})}), {-1}), dtype));
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
  c.SetOutput(0, Cast(sign * c.Apply("exp", {log}), c.input(0).dtype()));
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
  c.SetOutput(0, c.Apply("copy", {Cast(result, c.input(0).dtype())}));
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
      "compute_uv. Elements must be finite. Gradient with compute_uv and without full_matrices.")
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
           "(w, v); reads the half that UPLO names, which must be finite. The gradient is "
           "symmetric.")
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
  plain(
      "det",
      "Determinant. It has gradients of first and second order where the matrix is singular, too.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Compose([](InferContext& c) { return NumberRule(c, 1); }, DetCompose)
      .Saves({"a"})
      .Gradient(DetGradient);
  add("matrix_power", "Product of n copies of a matrix; of its inverse for negative n.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("n", AttrType::kInt)
      .Compose(MatrixPowerRule, MatrixPowerCompose);
  add("cofactors",
      "The matrix of cofactors, which is the gradient of det: det(a) times the transposed inverse "
      "where a is not singular.")
      .Inputs({"a"})
      .Outputs({"c"})
      .Infer(SameSquareRule)
      .Saves({"a", "c"})
      .Gradient(CofactorsGradient);
}

}  // namespace chx
