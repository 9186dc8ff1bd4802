// Views that permute, reverse and add axes, and views of any strides.
#include <algorithm>
#include <utility>

#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

// The next three functions give the order of a permutation: which axis of the array each axis of
// the view is.
absl::StatusOr<Ints> SwapAxes(const OpDef& op, absl::Span<const AttrValue> attrs, int ndim) {
  CHX_ASSIGN_OR_RETURN(const int first, rules::NormalizeAxis(op.name, attrs[0].AsInt(), ndim));
  CHX_ASSIGN_OR_RETURN(const int second, rules::NormalizeAxis(op.name, attrs[1].AsInt(), ndim));
  Ints order;
  for (int i = 0; i < ndim; ++i) order.push_back(i);
  std::swap(order[first], order[second]);
  return order;
}

absl::StatusOr<Ints> RollAxis(const OpDef& op, absl::Span<const AttrValue> attrs, int ndim) {
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(op.name, attrs[0].AsInt(), ndim));
  int64_t start = attrs[1].AsInt();
  if (start < -ndim || start > ndim) {
    return DimensionError("[rollaxis] expects a start in [", -ndim, ", ", ndim, "], got ", start);
  }
  if (start < 0) start += ndim;
  if (axis < start) --start;
  Ints order;
  for (int i = 0; i < ndim; ++i) {
    if (i != axis) order.push_back(i);
  }
  order.insert(order.begin() + start, axis);
  return order;
}

absl::StatusOr<Ints> MoveAxis(const OpDef& op, absl::Span<const AttrValue> attrs, int ndim) {
  for (int i = 0; i < 2; ++i) {
    if (!attrs[i].has_value()) continue;  // none, not all
    CHX_RETURN_IF_ERROR(rules::NormalizeAxes(op.name, attrs[i], ndim).status());
  }
  const Ints& source = attrs[0].ints();
  const Ints& destination = attrs[1].ints();
  if (source.size() != destination.size()) {
    return DimensionError("[moveaxis] expects as many destinations as sources, got ",
                          attrs[0].ToString(), " and ", attrs[1].ToString());
  }
  const auto normal = [ndim](int64_t axis) { return axis < 0 ? axis + ndim : axis; };
  Ints order(ndim, -1);
  uint32_t moved = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    order[normal(destination[i])] = normal(source[i]);
    moved |= uint32_t{1} << normal(source[i]);
  }
  int next = 0;
  for (int64_t& from : order) {
    if (from >= 0) continue;
    while ((moved >> next) & 1) ++next;
    from = next++;
  }
  return order;
}

using OrderFn = absl::StatusOr<Ints> (*)(const OpDef& op, absl::Span<const AttrValue> attrs,
                                         int ndim);

template <OrderFn kOrder>
absl::Status PermuteRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const auto attrs = absl::MakeConstSpan(&c.attr(0), 2);
  CHX_ASSIGN_OR_RETURN(const Ints order, kOrder(c.op(), attrs, a.ndim()));
  ArraySpec view = a;
  for (int i = 0; i < a.ndim(); ++i) {
    view.shape[i] = a.shape[static_cast<int>(order[i])];
    view.strides[i] = a.strides[static_cast<int>(order[i])];
  }
  c.AddView(view);
  return absl::OkStatus();
}

template <OrderFn kOrder>
void PermuteGradient(GradContext& g) {
  const Ints order = kOrder(g.op(), g.attrs(), g.input_spec(0).ndim()).value_or(Ints());
  Ints inverse(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  g.SetInputGrad(0, g.Apply("transpose", {g.output_grad(0)}, {{"axes", AttrValue(inverse)}}));
}

void RegisterPermutations(OpRegistry& r) {
  r.Add("swapaxes")
      .Doc("Two axes exchanged. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis1", AttrType::kInt)
      .Attr("axis2", AttrType::kInt)
      .View(PermuteRule<SwapAxes>)
      .Method()
      .Gradient(PermuteGradient<SwapAxes>);
  r.Add("rollaxis")
      .Doc("An axis moved before another one. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt)
      .Attr("start", AttrType::kInt, 0)
      .View(PermuteRule<RollAxis>)
      .Gradient(PermuteGradient<RollAxis>);
  r.Add("moveaxis")
      .Doc("Axes (none by default) moved to other positions; the rest keeps its order. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("source", AttrType::kInts, AttrValue())
      .Attr("destination", AttrType::kInts, AttrValue())
      .View(PermuteRule<MoveAxis>)
      .Gradient(PermuteGradient<MoveAxis>);
}

absl::Status Flip(InferContext& c, uint32_t axes) {
  ArraySpec view = c.input(0);
  for (int i = 0; i < view.ndim(); ++i) {
    if (((axes >> i) & 1) == 0) continue;
    if (view.size() > 0) view.offset += (view.shape[i] - 1) * view.strides[i];
    view.strides[i] = -view.strides[i];
  }
  c.AddView(view);
  return absl::OkStatus();
}

template <int kAxis>
absl::Status FlipOneRule(InferContext& c) {
  if (c.input(0).ndim() > kAxis) return Flip(c, uint32_t{1} << kAxis);
  return DimensionError("[", c.name(), "] expects at least ", kAxis + 1, " dimensions, got shape ",
                        c.input(0).shape.ToString());
}

void RegisterFlips(OpRegistry& r) {
  r.Add("flip")
      .Doc("The order along axes (all by default) reversed. A view.")
      .Inputs({"m"})
      .Outputs({"y"})
      .Attr("axes", AttrType::kInts, AttrValue())
      .View([](InferContext& c) -> absl::Status {
        CHX_ASSIGN_OR_RETURN(const uint32_t axes,
                             rules::NormalizeAxes(c.name(), c.attr(0), c.input(0).ndim()));
        return Flip(c, axes);
      })
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, g.Apply("flip", {g.output_grad(0)}, {{"axes", g.attr(0)}}));
      });
  r.Add("flipud")
      .Doc("The order along axis 0 reversed. A view.")
      .Inputs({"m"})
      .Outputs({"y"})
      .View(FlipOneRule<0>)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.Apply("flipud", {g.output_grad(0)})); });
  r.Add("fliplr")
      .Doc("The order along axis 1 reversed. A view.")
      .Inputs({"m"})
      .Outputs({"y"})
      .View(FlipOneRule<1>)
      .Gradient([](GradContext& g) { g.SetInputGrad(0, g.Apply("fliplr", {g.output_grad(0)})); });
}

// Inserts `before` axes of size 1 in front, and as many behind as make `ndim` dimensions.
absl::Status AtLeast(InferContext& c, int ndim, int before) {
  const ArraySpec& a = c.input(0);
  ArraySpec view = a;
  if (a.ndim() < ndim) {
    view.shape = Shape();
    view.strides = Strides();
    const auto ones = [&](int n) {
      for (int i = 0; i < n; ++i) {
        view.shape.push_back(1);
        view.strides.push_back(a.ndim() == 0 ? a.item_size() : 0);  // as in NumPy
      }
    };
    ones(before);
    for (int i = 0; i < a.ndim(); ++i) {
      view.shape.push_back(a.shape[i]);
      view.strides.push_back(a.strides[i]);
    }
    ones(ndim - a.ndim() - before);
  }
  c.AddView(view);
  return absl::OkStatus();
}

void RegisterAtLeast(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule) {
    r.Add(name).Doc(doc).Inputs({"a"}).Outputs({"y"}).View(rule).Gradient([](GradContext& g) {
      g.SetInputGrad(0, g.Apply("reshape", {g.output_grad(0)},
                                {{"newshape", AttrValue::FromInts(g.input_spec(0).shape.span())}}));
    });
  };
  add("atleast_1d", "a, with one dimension if it had none. A view.",
      [](InferContext& c) { return AtLeast(c, 1, 0); });
  add("atleast_2d", "a, with two dimensions if it had fewer: () and (N,) become (1, N). A view.",
      [](InferContext& c) { return AtLeast(c, 2, std::max(0, 2 - c.input(0).ndim())); });
  add("atleast_3d",
      "a, with three dimensions if it had fewer: (N,) becomes (1, N, 1), (M, N) (M, N, 1). A view.",
      [](InferContext& c) { return AtLeast(c, 3, c.input(0).ndim() < 2 ? 1 : 0); });
}

// Adds the bytes from the first to the last element along an axis; false if they are too many.
bool Extend(int64_t dim, int64_t stride, int64_t* begin, int64_t* end) {
  constexpr int64_t kMax = int64_t{1} << 58;  // kMaxNdim of them can be added
  if (stride > kMax || stride < -kMax) return false;
  if (dim < 2 || stride == 0) return true;
  if (dim - 1 > kMax / (stride < 0 ? -stride : stride)) return false;
  (stride < 0 ? *begin : *end) += (dim - 1) * stride;
  return true;
}

absl::Status AsStridedRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const Ints& strides = c.attr(1).ints();
  const int64_t offset = c.attr(2).AsInt();
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), c.attr(0).ints(), a.dtype));
  ArraySpec view(a.dtype, Shape(c.attr(0).ints()), a.device);
  bool valid = a.is_contiguous() && view.shape.size() == static_cast<int>(strides.size()) &&
               offset >= 0 && offset <= a.nbytes() && offset % a.item_size() == 0;
  int64_t begin = offset;
  int64_t end = valid ? offset + a.item_size() : 0;
  for (int i = 0; valid && i < view.ndim(); ++i) {
    valid = strides[i] % a.item_size() == 0 && Extend(view.shape[i], strides[i], &begin, &end);
  }
  if (!valid || (view.size() > 0 && (begin < 0 || end > a.nbytes()))) {
    return DimensionError("[as_strided] expects strides and an offset within the ", a.nbytes(),
                          " bytes of a contiguous array, got shape ", view.shape.ToString(),
                          ", strides ", c.attr(1).ToString(), " and offset ", offset);
  }
  view.strides = Strides(strides);
  view.offset = a.offset + offset;
  c.AddView(view);
  return absl::OkStatus();
}

void RegisterAsStrided(OpRegistry& r) {
  r.Add("as_strided")
      .Doc("Elements of a contiguous array at any distances, in bytes. A view.")
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("shape", AttrType::kInts)
      .Attr("strides", AttrType::kInts)
      .Attr("offset", AttrType::kInt)
      .View(AsStridedRule)
      .Internal()
      .NoGradient();
}

}  // namespace

void RegisterManipulationAxes(OpRegistry& r) {
  RegisterPermutations(r);
  RegisterFlips(r);
  RegisterAtLeast(r);
  RegisterAsStrided(r);
}

}  // namespace chx
