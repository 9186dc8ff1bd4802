// Operators between the ranks of a process group.
//
// Where a result is of use at one rank only, the others get an array without elements, and where
// only one rank's values are used, the others give an array for its shape and dtype. So each rank
// has an array that is in the graph, and takes part in the backward pass by it.
#include "ops/collective.h"

#include "ops/defs/common/expressions.h"
#include "ops/defs/common/nothing.h"
#include "ops/defs/common/running_products.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

using Move = CollectiveMove;
constexpr int kEvery = CollectiveMove::kEvery;

// Of the patterns: one move, and one for each rank.
int64_t OneMove(int /*size*/) { return 1; }
int64_t MoveByRank(int size) { return size; }
int64_t MoveByPair(int size) { return int64_t{size} * size; }

constexpr CollectivePattern kAllReduce = {OneMove,
                                          [](int64_t, int, int) {
                                            return Move{kEvery, 0, kEvery, 0};
                                          },
                                          false, false};
constexpr CollectivePattern kReduce = {OneMove,
                                       [](int64_t, int, int root) {
                                         return Move{kEvery, 0, root, 0};
                                       },
                                       false, false};
constexpr CollectivePattern kBroadcast = {OneMove,
                                          [](int64_t, int, int root) {
                                            return Move{root, 0, kEvery, 0};
                                          },
                                          false, false};
constexpr CollectivePattern kAllGather = {MoveByRank,
                                          [](int64_t i, int, int) {
                                            return Move{static_cast<int>(i), 0, kEvery, i};
                                          },
                                          false, false};
constexpr CollectivePattern kGather = {MoveByRank,
                                       [](int64_t i, int, int root) {
                                         return Move{static_cast<int>(i), 0, root, i};
                                       },
                                       false, false};
constexpr CollectivePattern kScatter = {MoveByRank,
                                        [](int64_t i, int, int root) {
                                          return Move{root, i, static_cast<int>(i), 0};
                                        },
                                        true, false};
constexpr CollectivePattern kReduceScatter = {MoveByRank,
                                              [](int64_t i, int, int) {
                                                return Move{kEvery, i, static_cast<int>(i), 0};
                                              },
                                              true, false};
constexpr CollectivePattern kAllToAll = {MoveByPair,
                                         [](int64_t i, int size, int) {
                                           const auto from = static_cast<int>(i / size);
                                           const auto to = static_cast<int>(i % size);
                                           return Move{from, to, to, from};
                                         },
                                         false, true};

absl::StatusOr<GroupAttr> GroupOf(const InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupAttr::From(c.name(), c.attr(0)));
  const int i = c.op().AttrIndex("root");
  if (i >= 0 && (c.attr(i).AsInt() < 0 || c.attr(i).AsInt() >= group.size)) {
    return ValueError("[", c.name(), "] expects a root in [0, ", group.size, "), got ",
                      c.attr(i).AsInt());
  }
  return group;
}

bool IsRoot(const OpDef& op, absl::Span<const AttrValue> attrs) {
  return attrs[0].ints()[1] == RootOf(op, attrs);
}
bool IsRoot(const InferContext& c) {
  return IsRoot(c.op(), absl::MakeConstSpan(&c.attr(0), c.op().attrs.size()));
}
bool IsRoot(const OpContext& c) { return IsRoot(c.op(), c.attrs()); }

// Of what input i is reduced to; the input is cast to it.
absl::StatusOr<Dtype> ReducedDtype(InferContext& c, int i) {
  const int attr = c.op().AttrIndex("reduction");
  const auto reduction = static_cast<GroupReduction>(c.attr(attr).AsInt());
  const auto num_choices = static_cast<int64_t>(c.op().attrs[attr].choices.size());
  if (c.attr(attr).AsInt() < 0 || c.attr(attr).AsInt() >= num_choices) {
    return ValueError("[", c.name(), "] expects a reduction in [0, ", num_choices, "), got ",
                      c.attr(attr).AsInt());
  }
  const ArraySpec& x = c.input(i);
  if (reduction == GroupReduction::kMax || reduction == GroupReduction::kMin) return x.dtype;
  if (x.dtype == Dtype::kBool) {
    return DtypeError("[", c.name(), "] expects an array of numbers for its ",
                      c.op().attrs[attr].choices[c.attr(attr).AsInt()], ", got ", x.ToString());
  }
  const Dtype dtype = reduction == GroupReduction::kMean ? AtLeastFloat(x.dtype) : x.dtype;
  c.CastInput(i, dtype);
  return dtype;
}

// The shape of a row of input 0, which has one for each rank.
absl::StatusOr<Shape> RowShape(const InferContext& c, int size) {
  const ArraySpec& x = c.input(0);
  if (x.ndim() == 0 || x.shape[0] != size) {
    return DimensionError("[", c.name(), "] expects an array with a row for each of ", size,
                          " ranks, got ", x.ToString());
  }
  return Shape(x.shape.span().subspan(1));
}

// Such a row for each rank.
Shape StackedShape(const Shape& row, int size) {
  Ints dims = {size};
  dims.insert(dims.end(), row.begin(), row.end());
  return Shape(dims);
}

absl::Status AllReduceRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(GroupOf(c).status());
  for (int i = 0; i < c.num_inputs(); ++i) {
    CHX_ASSIGN_OR_RETURN(const Dtype dtype, ReducedDtype(c, i));
    CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(i).shape));
  }
  return absl::OkStatus();
}

absl::Status ReduceRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(GroupOf(c).status());
  CHX_ASSIGN_OR_RETURN(const Dtype dtype, ReducedDtype(c, 0));
  return c.AddOutput(dtype, IsRoot(c) ? c.input(0).shape : Shape({0}));
}

absl::Status BroadcastRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(GroupOf(c).status());
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

absl::Status GatherRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupOf(c));
  const bool here = c.op().AttrIndex("root") < 0 || IsRoot(c);
  return c.AddOutput(c.input(0).dtype,
                     here ? StackedShape(c.input(0).shape, group.size) : Shape({0}));
}

absl::Status ScatterRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupOf(c));
  Shape row = c.input(0).shape;
  if (IsRoot(c)) {
    CHX_ASSIGN_OR_RETURN(row, RowShape(c, group.size));
  }
  return c.AddOutput(c.input(0).dtype, row);
}

absl::Status ReduceScatterRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupOf(c));
  CHX_ASSIGN_OR_RETURN(const Dtype dtype, ReducedDtype(c, 0));
  CHX_ASSIGN_OR_RETURN(const Shape row, RowShape(c, group.size));
  return c.AddOutput(dtype, row);
}

absl::Status AllToAllRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const GroupAttr group, GroupOf(c));
  CHX_RETURN_IF_ERROR(RowShape(c, group.size).status());
  return c.AddOutput(c.input(0).dtype, c.input(0).shape);
}

// A collective of the same group, and of the same root if it has one.
Value InGroup(GradContext& g, absl::string_view op, Value x) {
  const OpDef& own = g.op();
  if (own.AttrIndex("root") < 0) return g.Apply(op, {x}, {{"group", g.attr(0)}});
  return g.Apply(op, {x}, {{"group", g.attr(0)}, {"root", g.attr(own.AttrIndex("root"))}});
}

GroupReduction ReductionOf(const GradContext& g) { return chx::ReductionOf(g.op(), g.attrs()); }

// Sums and means are linear: their gradients need no values.
bool NeedsValues(absl::Span<const AttrValue> attrs, size_t reduction) {
  if (reduction >= attrs.size()) return false;  // of a call that nobody has checked
  const auto value = static_cast<GroupReduction>(attrs[reduction].AsInt());
  return value != GroupReduction::kSum && value != GroupReduction::kMean;
}
// The reduction's place among the attributes, which differs.
bool SecondNeedsValues(absl::Span<const AttrValue> attrs) { return NeedsValues(attrs, 1); }
bool ThirdNeedsValues(absl::Span<const AttrValue> attrs) { return NeedsValues(attrs, 2); }

// Of what the ranks' sum has; a mean has a part of it.
Value AsReduced(GradContext& g, Value grad) {
  if (ReductionOf(g) != GroupReduction::kMean) return grad;
  return grad * (1.0 / static_cast<double>(g.attr(0).ints()[2]));
}

// Of this rank's input i, given the gradient of what it was reduced to, at each of its elements:
// `grad`, the sum over all ranks' losses. `reduced` gives the values there. All ranks call it, with
// the same commands between them. As those of amax, amin and prod.
template <typename Reduced>
Value OfInput(GradContext& g, int i, Value grad, Reduced reduced) {
  const Value x = g.input(i);
  if (ReductionOf(g) != GroupReduction::kProd) {
    return Where(g.Apply("equal", {x, reduced()}), grad, 0);
  }
  const Value all = g.Apply("all_gather", {Cast(x, WideDtype(x.dtype()))}, {{"group", g.attr(0)}});
  const int64_t rank = g.attr(0).ints()[1];
  const Value others = TimesTheOthers(all, ExpandDims(Cast(grad, all.dtype()), 0), 0);
  return Reshape(SliceAxis(others, 0, rank, rank + 1), x.shape());
}

// All in one command, whatever a rank needs of it: the ranks' commands have to be the same.
void AllReduceGradient(GradContext& g) {
  absl::InlinedVector<Value, 4> grads;
  absl::InlinedVector<int, 4> inputs;
  for (int i = 0; i < g.num_outputs(); ++i) {
    const ArraySpec& y = g.output_spec(i);
    if (!IsFloat(y.dtype)) continue;
    const Value grad = g.output_grad(i);
    grads.push_back(grad.is_array() ? grad
                                    : g.Apply("zeros", {},
                                              {{"shape", ShapeAttr(y.shape)}, {"dtype", y.dtype}}));
    inputs.push_back(i);
  }
  const bool linear = !SecondNeedsValues(g.attrs());
  const Value first =
      g.Apply("all_reduce", absl::MakeConstSpan(grads),
              {{"group", g.attr(0)}, {"reduction", linear ? g.attr(1) : AttrValue(0)}});
  if (!g.status().ok()) return;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const int i = inputs[k];
    Value grad(first.context(), first.id() + static_cast<int>(k));
    if (!linear) grad = OfInput(g, i, grad, [&] { return g.output(i); });
    if (g.status().ok() && g.needs_grad(i)) g.SetInputGrad(i, grad);
  }
}

void ReduceGradient(GradContext& g) {
  const ArraySpec& x = g.input_spec(0);
  // What the root has, at all ranks.
  const auto from_root = [&](Value value) {
    return InGroup(g, "broadcast",
                   IsRoot(g) ? value : ZerosFor(value, ArraySpec(value.dtype(), x.shape)));
  };
  const Value grad = from_root(g.output_grad(0));
  if (!ThirdNeedsValues(g.attrs())) return g.SetInputGrad(0, AsReduced(g, grad));
  g.SetInputGrad(0, OfInput(g, 0, grad, [&] { return from_root(g.output(0)); }));
}

void ReduceScatterGradient(GradContext& g) {
  const Value grad = InGroup(g, "all_gather", g.output_grad(0));
  if (!SecondNeedsValues(g.attrs())) return g.SetInputGrad(0, AsReduced(g, grad));
  g.SetInputGrad(0, OfInput(g, 0, grad, [&] { return InGroup(g, "all_gather", g.output(0)); }));
}

// From the root to all: their part of what the root has.
void FromRoot(GradContext& g, absl::string_view op) {
  const Value grad = g.output_grad(0);
  g.SetInputGrad(0, InGroup(g, op, IsRoot(g) ? grad : ZerosFor(grad, g.input_spec(0))));
}

// From all to the root, whose values alone were used.
void ToRoot(GradContext& g, absl::string_view op) {
  const Value grad = InGroup(g, op, g.output_grad(0));
  if (g.status().ok()) g.SetInputGrad(0, IsRoot(g) ? grad : ZerosFor(grad, g.input_spec(0)));
}

}  // namespace

void RegisterCollectives(OpRegistry& r) {
  const auto add = [&r](const char* name, const char* doc, InferFn rule,
                        const CollectivePattern& pattern) -> OpDef& {
    return r.Add(name).Doc(doc).Module("distributed").Collective(rule, &pattern);
  };
  const auto collective = [&add](const char* name, const char* doc, InferFn rule,
                                 const CollectivePattern& pattern) -> OpDef& {
    return add(name, doc, rule, pattern).Inputs({"x"}).Outputs({"y"});
  };
  const auto reduces = [](OpDef& op) -> OpDef& {
    return op.Choice("reduction", {"sum", "mean", "max", "min", "prod"}, 0);
  };
  const auto rooted = [](OpDef& op) -> OpDef& { return op.Attr("root", AttrType::kInt, 0); };

  reduces(add("all_reduce",
              "The sum, or another reduction, of all ranks' arrays, one by one: at each "
              "rank, in the order of ranks.",
              AllReduceRule, kAllReduce))
      .Inputs({"arrays..."})
      .Outputs({"ys..."})
      .Tuple()
      .SavesIf(SecondNeedsValues, {"arrays", "ys"})
      .Gradient(AllReduceGradient);
  reduces(rooted(collective("reduce",
                            "As all_reduce of one array, at rank `root`; without elements at the "
                            "others.",
                            ReduceRule, kReduce)))
      .SavesIf(ThirdNeedsValues, {"x", "y"})
      .Gradient(ReduceGradient);
  rooted(collective("broadcast",
                    "The array of rank `root`; the others give one of its shape and dtype.",
                    BroadcastRule, kBroadcast))
      .Gradient([](GradContext& g) { ToRoot(g, "reduce"); });
  collective("all_gather", "All ranks' arrays, stacked along a new first axis.", GatherRule,
             kAllGather)
      .Gradient([](GradContext& g) {
        g.SetInputGrad(0, InGroup(g, "reduce_scatter", g.output_grad(0)));
      });
  rooted(collective("gather", "As all_gather, at rank `root`; without elements at the others.",
                    GatherRule, kGather))
      .Gradient([](GradContext& g) { FromRoot(g, "scatter"); });
  rooted(collective("scatter",
                    "A row of the array of rank `root`: x[rank]; the others give an array of such "
                    "a row's shape and dtype.",
                    ScatterRule, kScatter))
      .Gradient([](GradContext& g) { ToRoot(g, "gather"); });
  reduces(collective("reduce_scatter",
                     "The reduction of all ranks' rows number `rank`: as all_reduce(x)[rank].",
                     ReduceScatterRule, kReduceScatter))
      .SavesIf(SecondNeedsValues, {"x", "y"})
      .Gradient(ReduceScatterGradient);
  collective("all_to_all", "Row r is row number `rank` of rank r's array.", AllToAllRule, kAllToAll)
      .Gradient(
          [](GradContext& g) { g.SetInputGrad(0, InGroup(g, "all_to_all", g.output_grad(0))); });
}

}  // namespace chx
