// Short names for operators that gradient rules and compositions use often.
#ifndef CHX_OPS_DEFS_COMMON_EXPRESSIONS_H_
#define CHX_OPS_DEFS_COMMON_EXPRESSIONS_H_

#include <cstdint>

#include "ops/basic_index.h"
#include "ops/op_context.h"

namespace chx {

inline AttrValue ShapeAttr(const Shape& shape) { return AttrValue::FromInts(shape.span()); }

// For sums and what is made of them: float16 has too small a range.
inline Dtype WideDtype(Dtype dtype) { return PromoteTypes(dtype, Dtype::kFloat32); }

// Absent, too, where the call leaves out the last inputs.
inline Value OptionalInput(ComposeContext& c, int i) {
  return i < c.num_inputs() ? c.input(i) : Value();
}

inline Value Sigmoid(Value x) { return x.context()->Apply("sigmoid", {x}); }
inline Value Tanh(Value x) { return x.context()->Apply("tanh", {x}); }

// 0 to n - 1, as int64.
inline Value ArangeTo(OpContext& c, int64_t n) {
  return c.Apply("arange", {}, {{"start", Scalar(n)}, {"dtype", Dtype::kInt64}});
}

inline Value Where(Value condition, Value x, Value y) {
  return condition.context()->Apply("where", {condition, x, y});
}

// x itself if it has the dtype.
inline Value Cast(Value x, Dtype dtype) {
  return x.dtype() == dtype ? x : x.context()->Apply("astype", {x}, {{"dtype", dtype}});
}

inline Value Reshape(Value a, const Shape& shape) {
  return a.context()->Apply("reshape", {a}, {{"newshape", ShapeAttr(shape)}});
}

inline Value BroadcastTo(Value a, const Shape& shape) {
  return a.context()->Apply("broadcast_to", {a}, {{"shape", ShapeAttr(shape)}});
}

inline Value ExpandDims(Value x, int64_t axis) {
  return x.context()->Apply("expand_dims", {x}, {{"axis", axis}});
}

// a[begin:end] along an axis.
inline Value SliceAxis(Value a, int axis, int64_t begin, int64_t end) {
  IndexBuilder index;
  for (int i = 0; i < axis; ++i) index.Slice({}, {}, {});
  index.Slice(begin, end, {});
  return a.context()->Apply("getitem", {a}, {{"index", index.Build()}});
}

// Input i, a scalar or an array, as a float of the result's dtype. Bools have no arithmetic.
inline Value FloatInput(GradContext& g, int i) {
  const Value x = g.input(i);
  return x.is_scalar() ? Value(x.scalar().AsDouble()) : Cast(x, g.output_spec(0).dtype);
}

// Input i, an array, as floats. Bool and integers become float32.
inline Value FloatInput(ComposeContext& c, int i) {
  return Cast(c.input(i), AtLeastFloat(c.input(i).dtype()));
}

}  // namespace chx

#endif  // CHX_OPS_DEFS_COMMON_EXPRESSIONS_H_
