#include "ops/inference_rules.h"

#include <algorithm>
#include <string>

namespace chx {
namespace rules {
namespace {

absl::Status RefuseBool(const InferContext& c, Dtype dtype) {
  if (!IsBool(dtype)) return absl::OkStatus();
  return DtypeError("[", c.name(), "] expects a numeric dtype, got bool");
}

bool IsBoolInput(const InferContext& c, int i) {
  return c.is_scalar(i) ? c.scalar(i).kind() == ScalarKind::kBool : IsBool(c.input(i).dtype);
}

// Arrays and scalars: what is promoted with a number would not be bool any more.
absl::Status RefuseBools(const InferContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (IsBoolInput(c, i)) {
      return DtypeError("[", c.name(), "] expects numeric dtypes, got bool");
    }
  }
  return absl::OkStatus();
}

// Arrays of bool and of numbers are not compared. A scalar is of any kind.
absl::Status CheckComparable(const InferContext& c) {
  if (c.is_scalar(0) || c.is_scalar(1)) return absl::OkStatus();
  if (IsBool(c.input(0).dtype) == IsBool(c.input(1).dtype)) return absl::OkStatus();
  return DtypeError("[", c.name(), "] expects two bool arrays or two numeric ones, got ",
                    DtypeName(c.input(0).dtype), " and ", DtypeName(c.input(1).dtype));
}

absl::Status Binary(InferContext& c, Dtype compute, Dtype result) {
  Shape shape;
  CHX_RETURN_IF_ERROR(BroadcastInputs(c, 0, &shape));
  c.CastInputs(compute);
  return c.AddOutput(result, shape);
}

// In the target's dtype.
absl::Status InPlace(InferContext& c) {
  const ArraySpec& target = c.input(0);
  Shape shape = target.shape;
  CHX_RETURN_IF_ERROR(BroadcastInputs(c, 0, &shape));
  if (shape != target.shape) {
    return DimensionError("[", c.name(), "] expects a result of the target's shape ",
                          target.shape.ToString(), ", got ", shape.ToString());
  }
  const auto kind = [&c](int i) {
    return c.is_scalar(i) ? c.scalar(i).kind() : KindOf(c.input(i).dtype);
  };
  if (KindOf(target.dtype) != ScalarKind::kFloat && kind(1) == ScalarKind::kFloat) {
    return DtypeError("In-place assignment of float values into non-float array is not allowed.");
  }
  if (IsBool(target.dtype) && kind(1) != ScalarKind::kBool) {
    return DtypeError("In-place assignment of numerical values into bool array is not allowed.");
  }
  c.CastInputs(target.dtype);
  return absl::OkStatus();
}

}  // namespace

absl::Status Same(InferContext& c) { return c.AddOutput(c.input(0).dtype, c.input(0).shape); }

absl::Status SameNoBool(InferContext& c) {
  CHX_RETURN_IF_ERROR(RefuseBool(c, c.input(0).dtype));
  return Same(c);
}

absl::Status FloatUnary(InferContext& c) {
  const Dtype dtype = AtLeastFloat(c.input(0).dtype);
  c.CastInput(0, dtype);
  return c.AddOutput(dtype, c.input(0).shape);
}

absl::Status LogicalUnary(InferContext& c) {
  c.CastInput(0, Dtype::kBool);
  return c.AddOutput(Dtype::kBool, c.input(0).shape);
}

absl::Status Arithmetic(InferContext& c) {
  const Dtype dtype = PromoteInputs(c, 0);
  return Binary(c, dtype, dtype);
}

absl::Status ArithmeticNoBool(InferContext& c) {
  CHX_RETURN_IF_ERROR(RefuseBools(c));
  return Arithmetic(c);
}

absl::Status Extremum(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckComparable(c));
  return Arithmetic(c);
}

absl::Status TrueDivide(InferContext& c) {
  const Dtype dtype = AtLeastFloat(PromoteInputs(c, 0));
  return Binary(c, dtype, dtype);
}

absl::Status TrueDivideNoBool(InferContext& c) {
  CHX_RETURN_IF_ERROR(RefuseBools(c));
  return TrueDivide(c);
}

absl::Status Comparison(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckComparable(c));
  return Binary(c, PromoteInputs(c, 0), Dtype::kBool);
}

absl::Status Shift(InferContext& c) {
  for (int i = 0; i < 2; ++i) {
    const bool integer =
        c.is_scalar(i) ? c.scalar(i).kind() == ScalarKind::kInt : IsInt(c.input(i).dtype);
    if (!integer) return DtypeError("[", c.name(), "] expects integers");
  }
  const Dtype dtype = c.is_scalar(0) ? Dtype::kInt64 : c.input(0).dtype;
  return Binary(c, dtype, dtype);
}

absl::Status Logical(InferContext& c) { return Binary(c, Dtype::kBool, Dtype::kBool); }

absl::Status InPlaceArithmetic(InferContext& c) { return InPlace(c); }

absl::Status InPlaceArithmeticNoBool(InferContext& c) {
  CHX_RETURN_IF_ERROR(RefuseBools(c));
  return InPlaceArithmetic(c);
}

absl::Status InPlaceDivide(InferContext& c) {
  if (!IsFloat(c.input(0).dtype)) {
    return DtypeError("Integer inplace-division is not allowed.");
  }
  CHX_RETURN_IF_ERROR(RefuseBools(c));
  return InPlace(c);
}

absl::Status BroadcastInputs(const InferContext& c, int first, Shape* shape) {
  bool started = false;
  for (int i = first; i < c.num_inputs(); ++i) {
    if (!c.has_array(i)) continue;
    if (!started) {
      *shape = c.input(i).shape;
      started = true;
    } else if (!BroadcastInto(shape, c.input(i).shape)) {
      return DimensionError("[", c.name(), "] expects shapes that broadcast, got ",
                            shape->ToString(), " and ", c.input(i).shape.ToString());
    }
  }
  return absl::OkStatus();
}

Dtype PromoteInputs(const InferContext& c, int first) {
  Dtype dtype = Dtype::kBool;
  bool started = false;
  for (int i = first; i < c.num_inputs(); ++i) {
    if (!c.has_array(i)) continue;
    dtype = started ? PromoteTypes(dtype, c.input(i).dtype) : c.input(i).dtype;
    started = true;
  }
  for (int i = first; i < c.num_inputs(); ++i) {
    if (c.has_array(i) || !c.is_scalar(i)) continue;
    const ScalarKind kind = c.scalar(i).kind();
    dtype = started ? PromoteTypes(dtype, kind) : DefaultDtype(kind);
    started = true;
  }
  return dtype;
}

absl::StatusOr<int> NormalizeAxis(absl::string_view op, int64_t axis, int ndim) {
  if (axis < -ndim || axis >= ndim) {
    return DimensionError("[", op, "] expects an axis in [", -ndim, ", ", ndim, "), got ", axis);
  }
  return static_cast<int>(axis < 0 ? axis + ndim : axis);
}

absl::StatusOr<uint32_t> NormalizeAxes(absl::string_view op, const AttrValue& axes, int ndim) {
  if (!axes.has_value()) return (uint32_t{1} << ndim) - 1;
  uint32_t mask = 0;
  for (int64_t axis : axes.ints()) {
    CHX_ASSIGN_OR_RETURN(const int normalized, NormalizeAxis(op, axis, ndim));
    if ((mask >> normalized) & 1) {
      return DimensionError("[", op, "] expects distinct axes, got ", axes.ToString());
    }
    mask |= uint32_t{1} << normalized;
  }
  return mask;
}

absl::Status CheckAxesNotEmpty(absl::string_view op, const Shape& shape, uint32_t axes) {
  for (int i = 0; i < shape.size(); ++i) {
    if (((axes >> i) & 1) == 0 || shape[i] != 0) continue;
    return DimensionError("[", op, "] expects elements along axis ", i, ", got shape ",
                          shape.ToString());
  }
  return absl::OkStatus();
}

absl::Status ExtendAlong(const InferContext& c, int i, int axis, Shape next, Dtype dtype,
                         Shape* joined) {
  if (next.size() == joined->size()) {
    const int64_t length = next[axis];
    next[axis] = (*joined)[axis];
    if (next == *joined) {
      (*joined)[axis] += length;
      return CheckShape(c.name(), joined->span(), dtype);
    }
  }
  return DimensionError("[", c.name(), "] expects shapes that agree but for axis ", axis, ", got ",
                        c.input(0).shape.ToString(), " and ", c.input(i).shape.ToString());
}

Shape ReducedShape(const Shape& shape, uint32_t axes, bool keepdims) {
  Shape reduced;
  for (int i = 0; i < shape.size(); ++i) {
    if (((axes >> i) & 1) == 0) {
      reduced.push_back(shape[i]);
    } else if (keepdims) {
      reduced.push_back(1);
    }
  }
  return reduced;
}

bool ReshapeStrides(const ArraySpec& from, const Shape& shape, Strides* strides) {
  if (shape == from.shape) {
    *strides = from.strides;
    return true;
  }
  *strides = Strides(shape.size(), 0);
  int64_t stride = from.item_size();
  for (int i = shape.size() - 1; i >= 0; --i) {
    (*strides)[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);  // the 1 only without elements: as NumPy 1.24
  }
  if (from.is_contiguous()) return true;
  // Dimensions of size 1 don't matter. The rest is matched in groups of equal size, from the left;
  // within a group of the old array the memory must be evenly spaced.
  Shape old_shape;
  Strides old_strides;
  for (int i = 0; i < from.ndim(); ++i) {
    if (from.shape[i] == 1) continue;
    old_shape.push_back(from.shape[i]);
    old_strides.push_back(from.strides[i]);
  }
  int old_begin = 0;
  int new_begin = 0;
  while (old_begin < old_shape.size() && new_begin < shape.size()) {
    int old_end = old_begin + 1;
    int new_end = new_begin + 1;
    int64_t old_size = old_shape[old_begin];
    int64_t new_size = shape[new_begin];
    while (old_size != new_size) {
      if (old_size < new_size) {
        old_size *= old_shape[old_end++];
      } else {
        new_size *= shape[new_end++];
      }
    }
    for (int i = old_begin; i + 1 < old_end; ++i) {
      if (old_strides[i] != old_shape[i + 1] * old_strides[i + 1]) return false;
    }
    (*strides)[new_end - 1] = old_strides[old_end - 1];
    for (int i = new_end - 1; i > new_begin; --i) (*strides)[i - 1] = (*strides)[i] * shape[i];
    old_begin = old_end;
    new_begin = new_end;
  }
  // What is left over has size 1.
  const int64_t last = new_begin > 0 ? (*strides)[new_begin - 1] : from.item_size();
  for (int i = new_begin; i < shape.size(); ++i) (*strides)[i] = last;
  return true;
}

}  // namespace rules
}  // namespace chx
