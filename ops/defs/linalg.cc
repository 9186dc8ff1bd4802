// Products of matrices.
#include <algorithm>

#include "ops/defs/common/matrices.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

// How many products each element is the sum of: b's rows, or the elements of a vector b.
int64_t InnerSize(const Shape& b) { return b.size() == 1 ? b[0] : b[b.size() - 2]; }

absl::Status MatmulShape(const InferContext& c, const Shape& a, const Shape& b, Shape* out) {
  const auto mismatch = [&] {
    return DimensionError("[", c.name(), "] expects shapes that can be multiplied, got ",
                          a.ToString(), " and ", b.ToString());
  };
  if (a.empty() || b.empty()) return mismatch();
  if (a.back() != InnerSize(b)) return mismatch();
  Shape batch_a(a.span().subspan(0, std::max(0, a.size() - 2)));
  const Shape batch_b(b.span().subspan(0, std::max(0, b.size() - 2)));
  if (!BroadcastInto(&batch_a, batch_b)) return mismatch();
  *out = batch_a;
  if (a.size() > 1) out->push_back(a[a.size() - 2]);
  if (b.size() > 1) out->push_back(b.back());
  return absl::OkStatus();
}

absl::Status MatmulRule(InferContext& c) {
  Shape shape;
  CHX_RETURN_IF_ERROR(MatmulShape(c, c.input(0).shape, c.input(1).shape, &shape));
  const Dtype dtype = PromoteTypes(c.input(0).dtype, c.input(1).dtype);
  c.CastInputs(dtype);
  return c.AddOutput(dtype, shape);
}

// Vectors become matrices of one row or column. The squeezes here and the caller's sums undo that.
void MatmulGradient(GradContext& g) {
  const int ndim_a = g.input_spec(0).ndim();
  const int ndim_b = g.input_spec(1).ndim();
  Value gy = g.output_grad(0);
  if (ndim_b == 1) gy = ExpandDims(gy, -1);
  if (ndim_a == 1) gy = ExpandDims(gy, -2);
  if (g.needs_grad(0)) {
    const Value b = ndim_b == 1 ? ExpandDims(g.input(1), -1) : g.input(1);
    Value ga = g.Apply("matmul", {gy, matrices::T(b)});
    if (ndim_a == 1) ga = g.Apply("squeeze", {ga}, {{"axis", AttrValue(Ints{-2})}});
    g.SetInputGrad(0, ga);
  }
  if (g.needs_grad(1)) {
    const Value a = ndim_a == 1 ? ExpandDims(g.input(0), -2) : g.input(0);
    Value gb = g.Apply("matmul", {matrices::T(a), gy});
    if (ndim_b == 1) gb = g.Apply("squeeze", {gb}, {{"axis", AttrValue(Ints{-1})}});
    g.SetInputGrad(1, gb);
  }
}

absl::Status DotRule(InferContext& c) {
  const Shape& a = c.input(0).shape;
  const Shape& b = c.input(1).shape;
  const Dtype dtype = PromoteTypes(c.input(0).dtype, c.input(1).dtype);
  if (a.empty() || b.empty()) return c.AddOutput(dtype, a.empty() ? b : a);
  if (a.back() != InnerSize(b)) {
    return DimensionError("[dot] expects shapes that can be multiplied, got ", a.ToString(),
                          " and ", b.ToString());
  }
  if (a.size() + b.size() - 2 > kMaxNdim) {
    return DimensionError("[dot] expects at most ", kMaxNdim, " dimensions in the result");
  }
  Shape shape(a.span().subspan(0, a.size() - 1));
  for (int i = 0; i < b.size(); ++i) {
    if (i != b.size() - (b.size() == 1 ? 1 : 2)) shape.push_back(b[i]);
  }
  return c.AddOutput(dtype, shape);
}

// a times b of three dimensions or more: one matrix of all b's columns.
Value DotOfStack(ComposeContext& c, Value a, Value b) {
  const int axis = b.ndim() - 2;
  Ints axes = {axis};
  int64_t columns = 1;
  Shape shape(a.shape().span().subspan(0, a.ndim() - 1));
  for (int i = 0; i < b.ndim(); ++i) {
    if (i == axis) continue;
    axes.push_back(i);
    columns *= b.shape()[i];
    shape.push_back(b.shape()[i]);
  }
  const Value matrix =
      Reshape(c.Apply("transpose", {b}, {{"axes", AttrValue(axes)}}), {b.shape()[axis], columns});
  return Reshape(c.Apply("matmul", {a, matrix}), shape);
}

// x, w, b; n_batch_axes.
absl::Status LinearRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& w = c.input(1);
  const int64_t n_batch_axes = c.attr(0).AsInt();
  if (w.ndim() != 2 || n_batch_axes < 1 || n_batch_axes > x.ndim()) {
    return DimensionError("[linear] expects w of 2 dimensions and n_batch_axes from 1 to ",
                          x.ndim(), ", got ", w.shape.ToString(), " and ", n_batch_axes);
  }
  Shape shape;
  int64_t features = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i < n_batch_axes) {
      shape.push_back(x.shape[i]);
    } else {
      features *= x.shape[i];
    }
  }
  if (features != w.shape[1]) {
    return DimensionError("[linear] expects x of ", w.shape[1], " features for w of shape ",
                          w.shape.ToString(), ", got x of shape ", x.shape.ToString());
  }
  shape.push_back(w.shape[0]);
  Dtype dtype = PromoteTypes(x.dtype, w.dtype);
  if (c.has_array(2)) {
    const ArraySpec& b = c.input(2);
    if (b.ndim() != 1 || b.shape[0] != w.shape[0]) {
      return DimensionError("[linear] expects b of shape (", w.shape[0], ",), got ",
                            b.shape.ToString());
    }
    dtype = PromoteTypes(dtype, b.dtype);
  }
  c.CastInputs(dtype);
  return c.AddOutput(dtype, shape);
}

void LinearGradient(GradContext& g) {
  const ArraySpec& x_spec = g.input_spec(0);
  const ArraySpec& w_spec = g.input_spec(1);
  const int64_t outputs = w_spec.shape[0];
  const int64_t features = w_spec.shape[1];
  int64_t batch = 1;
  for (int i = 0; i < g.attr(0).AsInt(); ++i) batch *= x_spec.shape[i];
  const auto as_matrix = [&](Value v, int64_t columns) {
    return v.shape() == Shape{batch, columns} ? v : Reshape(v, {batch, columns});
  };
  const Value gy = as_matrix(g.output_grad(0), outputs);
  if (g.needs_grad(0)) {
    Value gx = g.Apply("matmul", {gy, g.input(1)});
    if (gx.shape() != x_spec.shape) gx = Reshape(gx, x_spec.shape);
    g.SetInputGrad(0, gx);
  }
  if (g.needs_grad(1)) {
    const Value x = as_matrix(g.input(0), features);
    g.SetInputGrad(1, g.Apply("matmul", {g.Apply("transpose", {gy}), x}));
  }
  if (g.num_inputs() > 2 && g.input_is_array(2) && g.needs_grad(2)) {
    g.SetInputGrad(2, g.Apply("sum", {gy}, {{"axis", AttrValue(Ints{0})}}));
  }
}

}  // namespace

void RegisterLinalg(OpRegistry& r) {
  r.Add("matmul")
      .Doc("Matrix product by NumPy's rules: 1-D arrays are vectors, leading axes broadcast.")
      .Inputs({"a", "b"})
      .Outputs({"y"})
      .Infer(MatmulRule)
      .Saves({"a", "b"})
      .Gradient(MatmulGradient);
  r.Add("dot")
      .Doc(
          "Sums of products over a's last axis and b's last but one, of a vector b its only one; "
          "with a 0-d array a product.")
      .Inputs({"a", "b"})
      .Outputs({"y"})
      .Method()
      .Compose(DotRule, [](ComposeContext& c) {
        const Value a = c.input(0);
        const Value b = c.input(1);
        if (a.ndim() == 0 || b.ndim() == 0) {
          c.SetOutput(0, a * b);
        } else {
          c.SetOutput(0, b.ndim() > 2 ? DotOfStack(c, a, b) : c.Apply("matmul", {a, b}));
        }
      });
  r.Add("linear")
      .Doc(
          "x w^T + b. x has n_batch_axes batch axes, the others are flattened to K features; w is "
          "(M, K), b is (M,).")
      .Inputs({"x", "w", "b?"})
      .Outputs({"y"})
      .Attr("n_batch_axes", AttrType::kInt, 1)
      .Infer(LinearRule)
      .Saves({"x", "w"})
      .Gradient(LinearGradient);
}

}  // namespace chx
