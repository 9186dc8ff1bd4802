// What reductions over axes share. Their first attributes are axis and keepdims.
#ifndef CHX_OPS_DEFS_COMMON_REDUCTION_RULES_H_
#define CHX_OPS_DEFS_COMMON_REDUCTION_RULES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/attr.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"
#include "ops/registry.h"

namespace chx {

// Whether `axis` means all elements because the array has no dimensions: np.sum(x, axis=0) of such
// an array is that of all its elements, and so with -1. Other reductions, np.mean among them,
// refuse it.
inline bool StandsForNone(const AttrValue& axis, int ndim) {
  if (ndim != 0 || !axis.has_value()) return false;
  const bool several = axis.type() == AttrType::kInts;
  if (several && axis.ints().size() != 1) return false;
  const int64_t number = several ? axis.ints()[0] : axis.AsInt();
  return number == 0 || number == -1;
}

// As rules::NormalizeAxes, for the reductions that accept an axis of an array without dimensions.
inline absl::StatusOr<uint32_t> ReductionAxes(absl::string_view op, const AttrValue& axes,
                                              int ndim) {
  if (StandsForNone(axes, ndim)) return 0;
  return rules::NormalizeAxes(op, axes, ndim);
}

// The bit of the axis that a number names; all bits without one.
inline absl::StatusOr<uint32_t> OneAxisOrAll(absl::string_view op, const AttrValue& axis,
                                             int ndim) {
  if (!axis.has_value()) return (uint32_t{1} << ndim) - 1;
  CHX_ASSIGN_OR_RETURN(const int normal, rules::NormalizeAxis(op, axis.AsInt(), ndim));
  return uint32_t{1} << normal;
}

// An entry with the attributes that reductions over any axes have.
inline OpDef& AddReduction(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(doc)
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInts, AttrValue())
      .Attr("keepdims", AttrType::kBool, false);
}

// Of reductions to a position: over one axis, or all.
inline OpDef& AddArgReduction(OpRegistry& r, const char* name, const char* doc) {
  return r.Add(name)
      .Doc(doc)
      .Inputs({"a"})
      .Outputs({"y"})
      .Attr("axis", AttrType::kInt, AttrValue())
      .Attr("keepdims", AttrType::kBool, false);
}

inline absl::Status Reduce(InferContext& c, Dtype dtype, bool empty_allowed = true) {
  const ArraySpec& a = c.input(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, ReductionAxes(c.name(), c.attr(0), a.ndim()));
  if (!empty_allowed) CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(dtype, rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

// The dtype that the attribute gives, or else `otherwise`.
inline Dtype DtypeOr(const AttrValue& dtype, Dtype otherwise) {
  return dtype.has_value() ? dtype.AsDtype() : otherwise;
}
inline Dtype SumDtype(Dtype dtype) { return IsFloat(dtype) ? dtype : Dtype::kInt64; }

// attr 2: the dtype that is summed in.
inline absl::Status SumRule(InferContext& c) {
  if (c.attr(2).has_value()) c.CastInput(0, c.attr(2).AsDtype());
  return Reduce(c, DtypeOr(c.attr(2), SumDtype(c.input(0).dtype)));
}

// attr `kDtype`: the dtype of the result.
template <int kDtype>
absl::Status MeanRule(InferContext& c) {
  return Reduce(c, DtypeOr(c.attr(kDtype), AtLeastFloat(c.input(0).dtype)));
}

inline absl::Status CheckAxes(const InferContext& c) {
  return rules::NormalizeAxes(c.name(), c.attr(0), c.input(0).ndim()).status();
}

// As MeanRule, but an array without dimensions has no axis.
template <int kDtype>
absl::Status MomentRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckAxes(c));
  return MeanRule<kDtype>(c);
}

// What a mean of that dtype is computed in. A sum of float16 overflows long before its mean does.
inline Dtype MeanComputeDtype(Dtype dtype) {
  return dtype == Dtype::kFloat32 || IsNarrowFloat(dtype) ? Dtype::kFloat32 : Dtype::kFloat64;
}

// How many elements a mean or moment is taken over.
inline double ReducedCount(ComposeContext& c) {
  const Shape& shape = c.input(0).shape();
  const uint32_t axes = rules::NormalizeAxes(c.op().name, c.attr(0), shape.size()).value_or(0);
  double count = 1;
  for (int i = 0; i < shape.size(); ++i) {
    if ((axes >> i) & 1) count *= static_cast<double>(shape[i]);
  }
  return count;
}

// An axis without elements has no extremum.
inline absl::Status ExtremumRule(InferContext& c) {
  return Reduce(c, c.input(0).dtype, /*empty_allowed=*/false);
}

// Another reduction over the axes of this one.
inline Value Over(ComposeContext& c, absl::string_view op, Value a) {
  return c.Apply(op, {a}, {{"axis", c.attr(0)}, {"keepdims", c.attr(1)}});
}
inline Value OverKept(OpContext& c, absl::string_view op, Value a) {
  return c.Apply(op, {a}, {{"axis", c.attr(0)}, {"keepdims", true}});
}

// The position (int64) of an extremum along one axis, or among all elements.
inline absl::Status ArgExtremumRule(InferContext& c) {
  const ArraySpec& a = c.input(0);
  const AttrValue axis = StandsForNone(c.attr(0), a.ndim()) ? AttrValue() : c.attr(0);
  CHX_ASSIGN_OR_RETURN(const uint32_t axes, OneAxisOrAll(c.name(), axis, a.ndim()));
  CHX_RETURN_IF_ERROR(rules::CheckAxesNotEmpty(c.name(), a.shape, axes));
  return c.AddOutput(Dtype::kInt64, rules::ReducedShape(a.shape, axes, c.attr(1).AsBool()));
}

}  // namespace chx

#endif  // CHX_OPS_DEFS_COMMON_REDUCTION_RULES_H_
