// What NumPy's reductions make of an axis of an array that has none.
#ifndef CHX_OPS_DEFS_ZERO_DIMS_H_
#define CHX_OPS_DEFS_ZERO_DIMS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ops/attr.h"
#include "ops/rules.h"

namespace chx {

// np.sum(x, axis=0) of an array without dimensions is that of all its elements, and so with -1.
// Others, np.mean among them, refuse it.
inline bool StandsForNone(const AttrValue& axis, int ndim) {
  if (ndim != 0 || !axis.has_value()) return false;
  const bool several = axis.type() == AttrType::kInts;
  if (several && axis.ints().size() != 1) return false;
  const int64_t number = several ? axis.ints()[0] : axis.AsInt();
  return number == 0 || number == -1;
}

// As rules::NormalizeAxes, for these reductions.
inline absl::StatusOr<uint32_t> ReductionAxes(absl::string_view op, const AttrValue& axes,
                                              int ndim) {
  if (StandsForNone(axes, ndim)) return 0;
  return rules::NormalizeAxes(op, axes, ndim);
}

// Of a reduction to one position: `axis` is a number.
inline absl::StatusOr<uint32_t> SingleReductionAxis(absl::string_view op, const AttrValue& axis,
                                                    int ndim) {
  if (!axis.has_value() || StandsForNone(axis, ndim)) return (uint32_t{1} << ndim) - 1;
  CHX_ASSIGN_OR_RETURN(const int normal, rules::NormalizeAxis(op, axis.AsInt(), ndim));
  return uint32_t{1} << normal;
}

}  // namespace chx

#endif  // CHX_OPS_DEFS_ZERO_DIMS_H_
