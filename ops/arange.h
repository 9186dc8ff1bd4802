// The meaning of arange's arguments, for inference and for kernels.
#ifndef CHX_OPS_ARANGE_H_
#define CHX_OPS_ARANGE_H_

#include <cmath>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ops/attr.h"
#include "ops/error.h"

namespace chx {

struct Arange {
  Scalar start;
  Scalar step;
  int64_t size = 0;
  Dtype dtype = Dtype::kInt32;
};

// How many of start, start + step, ... come before stop. Exact; step is not 0.
inline uint64_t CountInts(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const auto u = [](int64_t i) { return static_cast<uint64_t>(i); };
  return step > 0 ? (u(stop) - u(start) - 1) / u(step) + 1
                  : (u(start) - u(stop) - 1) / (uint64_t{0} - u(step)) + 1;
}

// The nearest int64 towards zero.
inline int64_t TruncateToInt(double x) {
  constexpr double kEnd = 9223372036854775808.0;
  if (std::isnan(x)) return 0;
  return x >= kEnd ? INT64_MAX : x < -kEnd ? INT64_MIN : static_cast<int64_t>(x);
}

// From arange's attributes: start, stop, step, dtype. arange(n) counts from 0.
inline absl::StatusOr<Arange> ParseArange(absl::Span<const AttrValue> attrs) {
  Arange result;
  const bool only_stop = !attrs[1].has_value();
  result.start = only_stop ? Scalar(0) : attrs[0].AsScalar();
  const Scalar stop = only_stop ? attrs[0].AsScalar() : attrs[1].AsScalar();
  result.step = attrs[2].has_value() ? attrs[2].AsScalar() : Scalar(1);
  ScalarKind kind = ScalarKind::kInt;
  for (const Scalar& scalar : {result.start, stop, result.step}) {
    if (scalar.kind() > kind) kind = scalar.kind();
  }
  result.dtype = attrs[3].has_value() ? attrs[3].AsDtype() : DefaultDtype(kind);
  const double step = result.step.AsDouble();
  if (step == 0 || std::isnan(step)) {
    return ChainerxError("[arange] expects a step other than 0, got ", result.step.ToString());
  }
  const double count =
      kind == ScalarKind::kFloat
          ? std::ceil((stop.AsDouble() - result.start.AsDouble()) / step)
          : static_cast<double>(CountInts(result.start.AsInt(), stop.AsInt(), result.step.AsInt()));
  if (std::isnan(count) || count > 1e18) {
    return ValueError("[arange] expects a finite number of elements");
  }
  result.size = count > 0 ? static_cast<int64_t>(count) : 0;
  if (kind == ScalarKind::kFloat && IsInt(result.dtype)) {
    // As NumPy: the first two elements are cast, and their difference is the step.
    const int64_t first = TruncateToInt(result.start.AsDouble());
    const int64_t second = TruncateToInt(result.start.AsDouble() + step);
    result.start = Scalar(first);
    result.step =
        Scalar(static_cast<int64_t>(static_cast<uint64_t>(second) - static_cast<uint64_t>(first)));
  }
  if (IsBool(result.dtype) && result.size > 2) {
    return DtypeError("[arange] expects at most 2 elements for bool, got ", result.size);
  }
  return result;
}

}  // namespace chx

#endif  // CHX_OPS_ARANGE_H_
