// Gradients of determinants: the cofactors, which singular matrices have too, and their gradients.
#include "ops/defs/common/matrices.h"
#include "ops/defs/common/running_products.h"
#include "ops/defs/decompositions.h"

namespace chx {
namespace {

using matrices::Eye;
using matrices::MatMul;
using matrices::Sum;
using matrices::T;
using matrices::Wide;

Value OfMatrices(Value x) { return ExpandDims(ExpandDims(x, -1), -1); }

// By singular values, a = u s vh, where the derivative of s's cofactors has products of all
// singular values but two, and c(u s vh) = det(u) det(vh) u c(s) vh.
Value BySingularValues(GradContext& g, Value a, Value gc) {
  const int64_t n = a.shape().back();
  const Value u = g.Apply("svd", {a}, {{"full_matrices", false}});
  const Value s(u.context(), u.id() + 1);
  const Value vh(u.context(), u.id() + 2);
  const Value eye = Eye(g, n, a.dtype());
  const Value off = Value(1.0) - eye;
  const Value but_one = ExpandDims(s, -2) * off + eye;
  Shape column = but_one.shape();
  column[column.size() - 1] = 1;
  const Value ones =
      g.Apply("ones", {}, {{"shape", AttrValue::FromInts(column.span())}, {"dtype", a.dtype()}});
  const Value but_two = TimesTheOthers(but_one, ones, column.size() - 1) * off;
  const Value inner = MatMul(MatMul(T(u), gc), T(vh));
  const Value diagonal = Sum(but_two * ExpandDims(Sum(inner * eye, {-1}), -2), {-1});
  const Value changed = ExpandDims(diagonal, -1) * eye - but_two * T(inner);
  const Value sign = g.Apply("slogdet", {u}) * g.Apply("slogdet", {vh});
  return MatMul(MatMul(u, changed), vh) * OfMatrices(sign);
}

// By singular values: of a matrix whose rank is less by two, the determinant and the cofactors are
// rounding errors, which say nothing.
Value IsNearToSingular(GradContext& g, Value a, Value harmless) {
  const double nearness = a.dtype() == Dtype::kFloat64 ? 1e-4 : 1e-2;
  const Value finite =
      g.Apply("all", {g.Apply("isfinite", {a})}, {{"axis", AttrValue(Ints{-1, -2})}});
  const Value s = g.Apply("svd", {Where(OfMatrices(finite), a, harmless)}, {{"compute_uv", false}});
  const auto extremum = [&](const char* op) {
    return g.Apply(op, {s}, {{"axis", AttrValue(Ints{-1})}});
  };
  const Value near = g.Apply("less_equal", {extremum("amin"), extremum("amax") * nearness});
  return g.Apply("logical_and", {finite, near});
}

}  // namespace

void DetGradient(GradContext& g) {
  const Value cofactors = g.Apply("cofactors", {g.input(0)});
  g.SetInputGrad(0, cofactors * OfMatrices(g.output_grad(0)));
}

// With c = det(a) a^-T it is (<gc, c> c - c gc^T c) / det(a), which cancels out where a is near to
// singular. There, gradients of the next order need singular values that are not equal.
void CofactorsGradient(GradContext& g) {
  if (NumElements(g.input_spec(0).shape) == 0) return g.SetInputGrad(0, g.output_grad(0));
  const Value a = Wide(g.input(0));
  const Value c = Wide(g.output(0));
  const Value gc = Wide(g.output_grad(0));
  const int64_t n = a.shape().back();
  const Value det = g.Apply("det", {a});
  // The other matrices, and those that are not finite, are replaced: their gradients would be NaN.
  const Value numbers = g.Apply("arange", {}, {{"start", Scalar(1)}, {"stop", Scalar(n + 1)}});
  const Value harmless = Eye(g, n, a.dtype()) * Cast(numbers, a.dtype());
  const Value singular = IsNearToSingular(g, a, harmless);
  const Value of_matrix = OfMatrices(singular);
  const Value along = c * OfMatrices(Sum(gc * c, {-1, -2}));
  const Value regular =
      (along - MatMul(MatMul(c, T(gc)), c)) / OfMatrices(Where(singular, 1.0, det));
  const Value special = BySingularValues(g, Where(of_matrix, a, harmless), gc);
  g.SetInputGrad(0, Where(of_matrix, special, regular));
}

}  // namespace chx
