// The inner loops of optimizers' steps: LoopSet::updates.
#ifndef CHX_SERVER_NATIVE_LOOPS_UPDATE_LOOPS_H_
#define CHX_SERVER_NATIVE_LOOPS_UPDATE_LOOPS_H_

#include <cstdint>

#include "server/kernels/update_rules.h"

namespace chx::server::native {

// One step of n dense elements of each list, which do not overlap; `attrs` as the rule wants them.
using UpdateLoop = void (*)(char* const* lists, int64_t n, const double* attrs);

// By position in kernels::UpdateRules.
struct UpdateLoops {
  UpdateLoop float16[kernels::UpdateRules::kSize];
  UpdateLoop bfloat16[kernels::UpdateRules::kSize];
  UpdateLoop float32[kernels::UpdateRules::kSize];
  UpdateLoop float64[kernels::UpdateRules::kSize];
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_UPDATE_LOOPS_H_
