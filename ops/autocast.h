// What automatic mixed precision does to the inputs of operators.
#ifndef CHX_OPS_AUTOCAST_H_
#define CHX_OPS_AUTOCAST_H_

#include <cstdint>

#include "ops/op_def.h"

namespace chx {

enum class AutocastRule : uint8_t {
  kNone,    // computed in the dtypes that come
  kNarrow,  // products: floats are cast to the narrow dtype, but for float64
  kWide,    // what needs range or digits: narrow floats are cast to float32
};

AutocastRule AutocastRuleOf(const OpDef& op);

// The dtype that the rule casts an input of `input` to; `input` itself if it stays.
Dtype AutocastDtype(AutocastRule rule, Dtype input, Dtype narrow);

}  // namespace chx

#endif  // CHX_OPS_AUTOCAST_H_
