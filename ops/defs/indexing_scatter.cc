// Reductions of elements that share an index: compositions, with the same results on every device
// and in every run.
#include <limits>
#include <utility>

#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

enum Reduction : int64_t { kSum = 0, kProd = 1, kMean = 2, kMax = 3, kMin = 4 };

const char* const kSegmentNames[] = {"segment_sum", "segment_prod", "segment_mean", "segment_max",
                                     "segment_min"};

// x (n, ...), ids (n,); num_segments.
absl::Status CheckSegments(InferContext& c, Dtype dtype) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& ids = c.input(1);
  if (IsBool(x.dtype) || !IsInt(ids.dtype)) {
    return DtypeError("[", c.name(), "] expects numbers and integer ids, got ", DtypeName(x.dtype),
                      " and ", DtypeName(ids.dtype));
  }
  if (x.ndim() == 0 || ids.ndim() != 1 || x.shape[0] != ids.shape[0]) {
    return DimensionError("[", c.name(), "] expects shapes (n, ...) and (n,), got ",
                          x.shape.ToString(), " and ", ids.shape.ToString());
  }
  Ints dims(x.shape.begin(), x.shape.end());
  dims[0] = c.attr(0).AsInt();
  if (dims[0] == 0 && x.shape[0] != 0) {
    return IndexError("[", c.name(), "] expects segments for ", x.shape[0], " rows, got none");
  }
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), dims, Dtype::kInt64));
  return c.AddOutput(dtype, Shape(dims));
}

absl::Status SegmentRule(InferContext& c) { return CheckSegments(c, c.input(0).dtype); }
absl::Status SegmentMeanRule(InferContext& c) {
  return CheckSegments(c, AtLeastFloat(c.input(0).dtype));
}

// What is not a segment's is out of range: here ids do not count from the end.
Value CheckedIds(OpContext& c, Value ids, int64_t segments) {
  const Value wide = Cast(ids, Dtype::kInt64);
  return Where(c.Apply("less", {wide, 0}), Scalar(segments), wide);
}

// Sums of rows, by checked ids.
Value AddRows(OpContext& c, Value x, Value ids, int64_t segments) {
  Ints dims(x.shape().begin(), x.shape().end());
  dims[0] = segments;
  return c.Apply("take_grad", {x, ids}, {{"shape", AttrValue(dims)}, {"axis", 0}});
}

Value TakeRows(OpContext& c, Value x, Value ids) {
  return c.Apply("take", {x, ids}, {{"axis", 0}});
}

// (n,) as (n, 1, ...), to go with rows of `like`.
Value AsColumn(Value x, Value like) {
  Shape column(like.ndim(), 1);
  column[0] = x.shape()[0];
  return Reshape(x, column);
}

// (segments,) int64: how many rows each has.
Value Counts(OpContext& c, Value ids, int64_t segments) {
  const Value ones = c.Apply(
      "full", {},
      {{"shape", ShapeAttr(ids.shape())}, {"fill_value", Scalar(1)}, {"dtype", Dtype::kInt64}});
  return AddRows(c, ones, ids, segments);
}

// Of no elements.
Scalar Identity(int64_t reduction, Dtype dtype) {
  if (reduction == kProd) return IsFloat(dtype) ? Scalar(1.0) : Scalar(1);
  const bool low = reduction == kMax;
  if (IsFloat(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return low ? -infinity : infinity;
  }
  const bool is_unsigned = dtype == Dtype::kUint8;
  const int bits = static_cast<int>(8 * ItemSize(dtype)) - (is_unsigned ? 0 : 1);
  const auto high = static_cast<int64_t>((uint64_t{1} << bits) - 1);
  if (!low) return Scalar(high);
  return is_unsigned ? Scalar(0) : Scalar(-high - 1);
}

Value Combined(OpContext& c, int64_t reduction, Value a, Value b) {
  return c.Apply(reduction == kProd  ? "multiply"
                 : reduction == kMax ? "maximum"
                                     : "minimum",
                 {a, b});
}

// Hillis and Steele's scan of each segment's rows, which a stable sort has put beside each other:
// log2(n) steps over all of them.
Value Scan(OpContext& c, int64_t reduction, Value x, Value ids) {
  const int64_t n = ids.shape()[0];
  for (int64_t distance = 1; distance < n; distance *= 2) {
    const Value same =
        c.Apply("equal", {SliceAxis(ids, 0, distance, n), SliceAxis(ids, 0, 0, n - distance)});
    const Value rest = SliceAxis(x, 0, distance, n);
    const Value joined = Combined(c, reduction, SliceAxis(x, 0, 0, n - distance), rest);
    const Value next = Where(AsColumn(same, x), joined, rest);
    x = c.Apply("concatenate", {SliceAxis(x, 0, 0, distance), next}, {{"axis", 0}});
  }
  return x;
}

Value ScannedSegments(OpContext& c, int64_t reduction, Value x, Value ids, int64_t segments) {
  const Scalar identity = Identity(reduction, x.dtype());
  const Value checked = CheckedIds(c, ids, segments);
  if (ids.shape()[0] == 0) {
    // Sums of nothing: zeros that depend on x, as its gradient expects.
    const Value zeros = AddRows(c, x, checked, segments);
    const Value all = c.Apply("equal", {zeros, 0});
    return Where(all, identity, zeros);
  }
  const Value counts = Counts(c, checked, segments);
  const Value order = c.Apply("argsort", {checked}, {{"axis", 0}});
  const Value scanned = Scan(c, reduction, TakeRows(c, x, order), TakeRows(c, checked, order));
  // The last row of each segment has the result.
  const Value ends = c.Apply("cumsum", {counts}, {{"axis", 0}}) - 1;
  const Value results = TakeRows(c, scanned, c.Apply("maximum", {ends, 0}));
  return Where(AsColumn(c.Apply("greater", {counts, 0}), results), results, identity);
}

void SegmentSum(ComposeContext& c) {
  const int64_t segments = c.attr(0).AsInt();
  c.SetOutput(0, AddRows(c, c.input(0), CheckedIds(c, c.input(1), segments), segments));
}

void SegmentMean(ComposeContext& c) {
  const int64_t segments = c.attr(0).AsInt();
  const Value x = FloatInput(c, 0);
  const Value ids = CheckedIds(c, c.input(1), segments);
  const Value sum = AddRows(c, x, ids, segments);
  c.SetOutput(0, sum / AsColumn(Cast(Counts(c, ids, segments), x.dtype()), sum));
}

template <Reduction reduction>
void SegmentByScan(ComposeContext& c) {
  c.SetOutput(0, ScannedSegments(c, reduction, c.input(0), c.input(1), c.attr(0).AsInt()));
}

// Rows that are equal to the result share its gradient.
void ExtremeGradient(GradContext& g) {
  if (!g.needs_grad(0)) return;
  const Value x = g.input(0);
  const int64_t segments = g.attr(0).AsInt();
  const Value ids = CheckedIds(g, g.input(1), segments);
  const Value chosen = g.Apply("equal", {x, TakeRows(g, g.output(0), ids)});
  const Value ties = AddRows(g, Cast(chosen, x.dtype()), ids, segments);
  const Value share = TakeRows(g, g.output_grad(0) / g.Apply("maximum", {ties, 1.0}), ids);
  g.SetInputGrad(0, Where(chosen, share, 0));
}

// x, indices, source; axis, reduce, include_self.
absl::Status ScatterReduceRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& indices = c.input(1);
  const ArraySpec& source = c.input(2);
  if (IsBool(x.dtype) || source.dtype != x.dtype || !IsInt(indices.dtype)) {
    return DtypeError("[scatter_reduce] expects numbers of one dtype and integer indices, got ",
                      DtypeName(x.dtype), ", ", DtypeName(source.dtype), " and ",
                      DtypeName(indices.dtype));
  }
  if (c.attr(1).AsInt() == kMean && !IsFloat(x.dtype)) {
    return DtypeError("[scatter_reduce] expects floats for 'mean', got ", DtypeName(x.dtype));
  }
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), x.ndim()));
  bool fits = indices.shape == source.shape && indices.ndim() == x.ndim();
  for (int i = 0; fits && i < x.ndim(); ++i) {
    fits = i == axis || indices.shape[i] <= x.shape[i];
  }
  if (!fits) {
    return DimensionError("[scatter_reduce] expects indices and source of one shape that fits ",
                          x.shape.ToString(), " but for axis ", axis, ", got ",
                          indices.shape.ToString(), " and ", source.shape.ToString());
  }
  if (x.shape[axis] == 0 && indices.size() != 0) {
    return IndexError("[scatter_reduce] expects elements along axis ", axis, ", got shape ",
                      x.shape.ToString());
  }
  const Ints all = {x.size() + source.size()};
  CHX_RETURN_IF_ERROR(CheckShape(c.name(), all, Dtype::kInt64));
  return c.AddOutput(x.dtype, x.shape);
}

// The element of an array of `shape` that each index along an axis stands for, in one dimension.
Value FlatPositions(OpContext& c, Value indices, const Shape& shape, int axis) {
  const Value wide = Cast(indices, Dtype::kInt64);
  Value flat;
  int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    Value part = wide;
    if (i != axis) {
      Shape line(shape.size(), 1);
      line[i] = wide.shape()[i];
      part = Reshape(ArangeTo(c, line[i]), line);
    }
    part = part * Scalar(step);
    flat = flat.absent() ? part : flat + part;
    step *= shape[i];
  }
  // Out of range along the axis is out of range of all.
  const Value low = c.Apply("less", {wide, 0});
  const Value high = c.Apply("greater_equal", {wide, Scalar(shape[axis])});
  flat = Where(c.Apply("logical_or", {low, high}), Scalar(step), flat);
  return Reshape(flat, {NumElements(flat.shape())});
}

// Elements with positions (n,) each: by the operator of segments.
Value Segments(OpContext& c, int64_t reduction, Value x, Value positions, int64_t size) {
  return c.Apply(kSegmentNames[reduction], {x, positions}, {{"num_segments", size}});
}

void ScatterReduce(ComposeContext& c) {
  const Value x = c.input(0);
  const int axis = rules::NormalizeAxis(c.op().name, c.attr(0).AsInt(), x.ndim()).value_or(0);
  const int64_t reduction = c.attr(1).AsInt();
  const int64_t size = NumElements(x.shape());
  Value positions = FlatPositions(c, c.input(1), x.shape(), axis);
  Value source = Reshape(c.input(2), positions.shape());
  const Value flat = Reshape(x, {size});
  if (c.attr(2).AsBool()) {  // include_self
    source = c.Apply("concatenate", {source, flat}, {{"axis", 0}});
    positions = c.Apply("concatenate", {positions, ArangeTo(c, size)}, {{"axis", 0}});
    return c.SetOutput(0, Reshape(Segments(c, reduction, source, positions, size), x.shape()));
  }
  const Value counts = Counts(c, positions, size);
  const Value reached = c.Apply("greater", {counts, 0});
  const Value reduced = Segments(c, reduction, source, positions, size);
  c.SetOutput(0, Reshape(Where(reached, reduced, flat), x.shape()));
}

// x, indices, source; axis.
absl::Status IndexAddRule(InferContext& c) {
  const ArraySpec& x = c.input(0);
  const ArraySpec& indices = c.input(1);
  const ArraySpec& source = c.input(2);
  if (IsBool(x.dtype) || source.dtype != x.dtype || !IsInt(indices.dtype)) {
    return DtypeError("[index_add] expects numbers of one dtype and integer indices, got ",
                      DtypeName(x.dtype), ", ", DtypeName(source.dtype), " and ",
                      DtypeName(indices.dtype));
  }
  CHX_ASSIGN_OR_RETURN(const int axis, rules::NormalizeAxis(c.name(), c.attr(0).AsInt(), x.ndim()));
  Shape expected = x.shape;
  if (indices.ndim() == 1) expected[axis] = indices.shape[0];
  if (indices.ndim() != 1 || source.shape != expected) {
    return DimensionError("[index_add] expects indices (n,) and a source of ", expected.ToString(),
                          ", got ", indices.shape.ToString(), " and ", source.shape.ToString());
  }
  if (x.shape[axis] == 0 && indices.size() != 0) {
    return IndexError("[index_add] expects elements along axis ", axis, ", got shape ",
                      x.shape.ToString());
  }
  return c.AddOutput(x.dtype, x.shape);
}

void RegisterSegments(OpRegistry& r) {
  const auto segments = [&r](Reduction reduction, const char* doc) -> OpDef& {
    return r.Add(kSegmentNames[reduction])
        .Doc(doc)
        .Inputs({"x", "ids"})
        .Outputs({"y"})
        .Attr("num_segments", AttrType::kInt);
  };
  segments(kSum,
           "Sums of the rows of x (n, ...) that have one id: ids (n,) in [0, num_segments), in any "
           "order. Ids out of range are an IndexError.")
      .Compose(SegmentRule, SegmentSum);
  segments(kMean, "As segment_sum, means. NaN for a segment without rows. Integers give float32.")
      .Compose(SegmentMeanRule, SegmentMean);
  segments(kProd, "As segment_sum, products. The gradient is right beside zeros, too.")
      .Compose(SegmentRule, SegmentByScan<kProd>);
  segments(
      kMax,
      "As segment_sum, the largest elements. A segment without rows gets the least number that "
      "there is. Equal elements share the gradient.")
      .Compose(SegmentRule, SegmentByScan<kMax>)
      .Saves({"x", "ids", "y"})
      .Gradient(ExtremeGradient);
  segments(kMin, "As segment_max, the smallest elements.")
      .Compose(SegmentRule, SegmentByScan<kMin>)
      .Saves({"x", "ids", "y"})
      .Gradient(ExtremeGradient);
}

}  // namespace

void RegisterIndexingScatter(OpRegistry& r) {
  RegisterSegments(r);
  r.Add("scatter_reduce")
      .Doc(
          "x, with the elements of source at indices along an axis: their sum, product, mean, "
          "maximum or minimum, with x's own element unless include_self is false. indices and "
          "source "
          "have one shape, which is x's or smaller but for the axis. Where no index points x "
          "stays. "
          "Equal elements share the gradient. Indices out of range are an IndexError.")
      .Inputs({"x", "indices", "source"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt)
      .Choice("reduce", {"sum", "prod", "mean", "max", "min"}, 0)
      .Attr("include_self", AttrType::kBool, true)
      .Compose(ScatterReduceRule, ScatterReduce);
  r.Add("index_add")
      .Doc(
          "x plus the slices of source at indices (n,) along an axis: those of equal indices add "
          "up. "
          "As in take, indices count from the end, too; out of range is an IndexError.")
      .Inputs({"x", "indices", "source"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt, 0)
      .Compose(IndexAddRule, [](ComposeContext& c) {
        const Value x = c.input(0);
        const Value sums = c.Apply("take_grad", {c.input(2), c.input(1)},
                                   {{"shape", ShapeAttr(x.shape())}, {"axis", c.attr(0)}});
        c.SetOutput(0, x + sums);
      });
}

}  // namespace chx
