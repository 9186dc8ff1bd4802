// One call of an operator.
#ifndef CHX_OPS_OP_CALL_H_
#define CHX_OPS_OP_CALL_H_

#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"
#include "ops/op_def.h"

namespace chx {

// A view, as spans are: inputs and attributes are the caller's. `In`: a layer's operand, see
// ops/operand.h.
template <typename In>
struct OpCall {
  const OpDef& op;
  absl::Span<const In> inputs;
  absl::Span<const AttrValue> attrs;
  // Where the operator runs if none of its inputs is an array.
  DeviceId device = 0;
};

}  // namespace chx

#endif  // CHX_OPS_OP_CALL_H_
