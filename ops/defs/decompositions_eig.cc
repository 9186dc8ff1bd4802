// Eigenvalues and eigenvectors of matrices that are not symmetric, where they are real: there is no
// complex dtype.
#include "ops/defs/common/matrices.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

using matrices::Eye;
using matrices::MatMul;
using matrices::ScaleColumns;
using matrices::T;

// One output for eigvals, two for eig.
absl::Status EigRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  if (!IsFloat(a.dtype)) {
    return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(a.dtype));
  }
  if (a.ndim() < 2 || a.shape.back() != a.shape[a.ndim() - 2]) {
    return DimensionError("[", c.name(), "] expects square matrices, got ", a.shape.ToString());
  }
  CHX_RETURN_IF_ERROR(c.AddOutput(a.dtype, Shape(a.shape.span().subspan(0, a.ndim() - 1))));
  return c.op().outputs.size() > 1 ? c.AddOutput(a.dtype, a.shape) : absl::OkStatus();
}

// v^-T inner v^T.
Value Rotated(GradContext& g, Value v, Value inner) {
  return g.Apply("solve", {T(v), MatMul(inner, T(v))});
}

// Giles, "An extended collection of matrix derivative results", 2008, with eigenvectors that keep
// their length.
void EigGradient(GradContext& g) {
  const Value w = g.output(0);
  const Value v = g.output(1);
  const Value gw = g.output_grad(0);
  const Value gv = g.output_grad(1);
  const Value eye = Eye(g, w.shape().back(), w.dtype());
  Value inner;
  if (!gv.absent()) {
    const Value vtgv = MatMul(T(v), gv);
    const Value along = g.Apply("sum", {v * gv}, {{"axis", AttrValue(Ints{-2})}});
    inner = (vtgv - ScaleColumns(MatMul(T(v), v), along)) * matrices::InverseGaps(g, w);
  }
  if (!gw.absent()) {
    const Value diagonal = ExpandDims(gw, -1) * eye;
    inner = inner.absent() ? diagonal : inner + diagonal;
  }
  g.SetInputGrad(0, Rotated(g, v, inner));
}

void EigvalsGradient(GradContext& g) {
  const Value w = g.Apply("eig", {g.input(0)});
  const Value v(w.context(), w.id() + 1);
  g.SetInputGrad(
      0, Rotated(g, v, ExpandDims(g.output_grad(0), -1) * Eye(g, w.shape().back(), w.dtype())));
}

}  // namespace

void RegisterDecompositionsEig(OpRegistry& r) {
  r.Add("eig")
      .Doc(
          "Eigenvalues, in no order, and eigenvectors (columns of length 1) of square matrices, as "
          "(w, v). Complex ones are an error, and so are elements that are not finite.")
      .Module("linalg")
      .Inputs({"a"})
      .Outputs({"w", "v"})
      .Checked()
      .Infer(EigRule)
      .Saves({"w", "v"})
      .Gradient(EigGradient);
  r.Add("eigvals")
      .Doc("Eigenvalues of square matrices, in no order. Complex ones are an error; see eig.")
      .Module("linalg")
      .Inputs({"a"})
      .Outputs({"w"})
      .Checked()
      .Infer(EigRule)
      .Saves({"a"})
      .Gradient(EigvalsGradient);
}

}  // namespace chx
