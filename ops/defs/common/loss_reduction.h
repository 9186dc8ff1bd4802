// What losses of classes share: the attribute `reduction`, and how a sum becomes a mean.
#ifndef CHX_OPS_DEFS_COMMON_LOSS_REDUCTION_H_
#define CHX_OPS_DEFS_COMMON_LOSS_REDUCTION_H_

#include <string>
#include <vector>

#include "ops/defs/common/expressions.h"

namespace chx::losses {

// Values of the attribute: the position of each word.
inline constexpr int64_t kMean = 0;
inline constexpr int64_t kNone = 2;
inline constexpr int64_t kBatchMean = 3;

inline std::vector<std::string> Reductions() { return {"mean", "sum", "none"}; }

// The shape of a loss with `shape` for its elements.
inline Shape ReducedTo(const AttrValue& reduction, const Shape& shape) {
  return reduction.AsInt() == kNone ? shape : Shape();
}

inline Value Sum(Value x) { return x.context()->Apply("sum", {x}); }

// Elements, their sum, or the sum divided by `total`, a function that gives a value or a number.
template <typename Total>
Value Reduced(Value elements, const AttrValue& reduction, Dtype dtype, Total total) {
  if (reduction.AsInt() == kNone) return Cast(elements, dtype);
  Value sum = Sum(Cast(elements, WideDtype(dtype)));
  if (reduction.AsInt() == kMean) sum = sum / total();
  return Cast(sum, dtype);
}

}  // namespace chx::losses

#endif  // CHX_OPS_DEFS_COMMON_LOSS_REDUCTION_H_
