// Inference rules that many operators share, and the helpers that rules are made of.
#ifndef CHX_OPS_INFERENCE_RULES_H_
#define CHX_OPS_INFERENCE_RULES_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/infer.h"

namespace chx {
namespace rules {

// y has x's shape and dtype; bool is refused.
absl::Status SameNoBool(InferContext& c);
// y has x's shape and dtype.
absl::Status Same(InferContext& c);
// y has x's shape; bool and integers become float32.
absl::Status FloatUnary(InferContext& c);
// bool of x's shape; x is cast to bool.
absl::Status LogicalUnary(InferContext& c);

// Two inputs, broadcast and promoted.
absl::Status Arithmetic(InferContext& c);
// Bool is refused, of arrays and scalars.
absl::Status ArithmeticNoBool(InferContext& c);
// An array of bool and one of numbers are refused.
absl::Status Extremum(InferContext& c);
// As Arithmetic, but bool and integers become float32.
absl::Status TrueDivide(InferContext& c);
absl::Status TrueDivideNoBool(InferContext& c);
// bool; computed in the promoted dtype. An array of bool and one of numbers are refused.
absl::Status Comparison(InferContext& c);
// Integers; of the first one's dtype, int64 for a scalar.
absl::Status Shift(InferContext& c);
// bool; computed in bool.
absl::Status Logical(InferContext& c);

// For `base_` operators: a = base(a, b), with ChainerX's refusals.
absl::Status InPlaceArithmetic(InferContext& c);
absl::Status InPlaceArithmeticNoBool(InferContext& c);
absl::Status InPlaceDivide(InferContext& c);

// The common shape and promoted dtype of inputs [first, last): arrays and scalars.
absl::Status BroadcastInputs(const InferContext& c, int first, Shape* shape);
Dtype PromoteInputs(const InferContext& c, int first);

// axis in [-ndim, ndim) made non-negative.
absl::StatusOr<int> NormalizeAxis(absl::string_view op, int64_t axis, int ndim);
// Sorted, distinct, non-negative axes as a bit mask. An absent attribute means all.
absl::StatusOr<uint32_t> NormalizeAxes(absl::string_view op, const AttrValue& axes, int ndim);
// An error if one of the axes of `shape` has no elements.
absl::Status CheckAxesNotEmpty(absl::string_view op, const Shape& shape, uint32_t axes);
// Adds the length of `next` along an axis to *joined. An error if they differ along another axis;
// it shows the shapes of inputs 0 and i, of which `next` may be a form with more dimensions.
absl::Status ExtendAlong(const InferContext& c, int i, int axis, Shape next, Dtype dtype,
                         Shape* joined);
// The shape of a reduction's result.
Shape ReducedShape(const Shape& shape, uint32_t axes, bool keepdims);

// NumPy's rule for a reshape without a copy: the strides of `shape` over the same memory, or false.
// Both shapes have the same number of elements.
bool ReshapeStrides(const ArraySpec& from, const Shape& shape, Strides* strides);

}  // namespace rules
}  // namespace chx

#endif  // CHX_OPS_INFERENCE_RULES_H_
