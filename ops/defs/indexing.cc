// Operators that read parts of arrays, and their gradients.
#include "ops/basic_index.h"
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

constexpr int kRaise = 0;  // of mode

absl::Status GetItemRule(InferContext& c) {
  ArraySpec view;
  CHX_RETURN_IF_ERROR(ApplyBasicIndex(c.name(), c.attr(0).ints(), c.input(0), &view));
  c.AddView(view);
  return absl::OkStatus();
}

absl::Status GetItemGradRule(InferContext& c) {
  const Dtype dtype = c.input(0).dtype;
  const Ints& dims = c.attr(0).ints();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, dtype));
  const Shape shape(dims);
  ArraySpec view;
  CHX_RETURN_IF_ERROR(
      ApplyBasicIndex(c.name(), c.attr(1).ints(), ArraySpec(dtype, shape, c.device()), &view));
  if (view.shape != c.input(0).shape) {
    return DimensionError("[getitem_grad] expects a gradient of shape ", view.shape.ToString(),
                          ", got ", c.input(0).shape.ToString());
  }
  return c.AddOutput(dtype, shape);
}

absl::Status CheckIndices(const InferContext& c, const ArraySpec& indices) {
  if (IsInt(indices.dtype)) return absl::OkStatus();
  return DtypeError("[", c.name(), "] expects integer indices, got ", DtypeName(indices.dtype));
}

absl::Status TakeRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const ArraySpec& indices = c.input(1);
  CHX_RETURN_IF_ERROR(CheckIndices(c, indices));
  if (!c.attr(0).has_value()) {
    return MakeError(ErrorKind::kNotImplemented, "[take] expects an axis, got None");
  }
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), a.ndim()));
  if (a.ndim() - 1 + indices.ndim() > kMaxNdim) {
    return DimensionError("[take] expects at most ", kMaxNdim, " dimensions in the result");
  }
  if (a.shape[axis] == 0 && indices.size() != 0) {
    return IndexError("[take] expects elements along axis ", axis, ", got shape ",
                      a.shape.ToString());
  }
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(a.shape[i]);
  for (int64_t dim : indices.shape) shape.push_back(dim);
  for (int i = axis + 1; i < a.ndim(); ++i) shape.push_back(a.shape[i]);
  c.CastInput(1, Dtype::kInt64);
  return c.AddOutput(a.dtype, shape);
}

// gy, indices; shape, axis, mode.
absl::Status TakeGradRule(InferContext& c) {
  const ArraySpec& gy = c.input(0);
  const ArraySpec& indices = c.input(1);
  CHX_RETURN_IF_ERROR(CheckIndices(c, indices));
  const Ints& dims = c.attr(0).ints();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, gy.dtype));
  const Shape shape(dims);
  CHX_ASSIGN_OR_RETURN(const int axis,
                       rules::NormalizeAxis(c.name(), c.attr(1).AsInt(), shape.size()));
  bool fits = gy.ndim() == shape.size() - 1 + indices.ndim();
  for (int i = 0; fits && i < gy.ndim(); ++i) {
    const int64_t dim = i < axis                    ? shape[i]
                        : i < axis + indices.ndim() ? indices.shape[i - axis]
                                                    : shape[i - indices.ndim() + 1];
    fits = gy.shape[i] == dim;
  }
  if (!fits || (shape[axis] == 0 && indices.size() != 0)) {
    return DimensionError("[take_grad] expects the gradient of take for ", shape.ToString(),
                          ", got ", gy.shape.ToString());
  }
  c.CastInput(1, Dtype::kInt64);
  return c.AddOutput(gy.dtype, shape);
}

}  // namespace

void RegisterIndexing(OpRegistry& r) {
  r.Add("getitem")
      .Doc("a[index] for a basic index: integers, slices, None and Ellipsis. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("index", AttrType::kIndex)
      .View(GetItemRule)
      .PartOfInput()
      .Internal()
      .Gradient([](GradContext& g) {
        g.SetInputGrad(
            0, g.Apply("getitem_grad", {g.output_grad(0)},
                       {{"shape", ShapeAttr(g.input_spec(0).shape)}, {"index", g.attr(0)}}));
      });
  r.Add("getitem_grad")
      .Doc("Zeros of a shape, with gy at index.")
      .Inputs({"gy"})
      .Outputs({"gx"})
      .Attr("shape", AttrType::kInts)
      .Attr("index", AttrType::kIndex)
      .Infer(GetItemGradRule)
      .Internal()
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("getitem", {g.output_grad(0)}, {{"index", g.attr(1)}}));
      });
  r.Add("take")
      .Doc(
          "Elements of a along an axis, chosen by an integer array. Out of range: an IndexError "
          "('raise', the default), the index modulo the size ('wrap') or the nearest ('clip'). A "
          "'raise' that is written out waits, and raises at the call; by default reading does. In "
          "Python indices may be a list or a NumPy array: the call waits then too.")
      .Inputs({"a", "indices|indices"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt, AttrValue())
      .Choice("mode", {"raise", "wrap", "clip"}, AttrValue())
      .Infer(TakeRule)
      .Checked([](absl::Span<const AttrValue> attrs) {
        return attrs[1].has_value() && attrs[1].AsInt() == kRaise;
      })
      .ChecksIndices([](absl::Span<const AttrValue> attrs) {
        return !attrs[1].has_value() || attrs[1].AsInt() == kRaise;
      })
      .Method()
      .Saves({"indices"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("take_grad", {g.output_grad(0), g.input(1)},
                                  {{"shape", ShapeAttr(g.input_spec(0).shape)},
                                   {"axis", g.attr(0)},
                                   {"mode", g.attr(1)}}));
      });
  r.Add("take_grad")
      .Doc("Zeros of a shape, with gy added at the places that take read.")
      .Inputs({"gy", "indices"})
      .Outputs({"gx"})
      .Attr("shape", AttrType::kInts)
      .Attr("axis", AttrType::kInt)
      .Choice("mode", {"raise", "wrap", "clip"}, AttrValue())
      .Infer(TakeGradRule)
      .Internal()
      .Saves({"indices"})
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("take", {g.output_grad(0), g.input(1)},
                                  {{"axis", g.attr(1)}, {"mode", g.attr(2)}}));
      });
}

}  // namespace chx
