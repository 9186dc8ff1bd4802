// Arrays without elements, which stand in a rank's graph for what another rank has.
#ifndef CHX_OPS_DEFS_COMMON_NOTHING_H_
#define CHX_OPS_DEFS_COMMON_NOTHING_H_

#include "ops/defs/common/expressions.h"

namespace chx {

// Zeros that are computed from such an array.
inline Value ZerosFor(Value nothing, const ArraySpec& spec) {
  const Value zero = nothing.context()->Apply("sum", {nothing});
  return BroadcastTo(Cast(zero, spec.dtype), spec.shape);
}

}  // namespace chx

#endif  // CHX_OPS_DEFS_COMMON_NOTHING_H_
