// The inputs of a call as automatic mixed precision has them.
#ifndef CHX_CLIENT_AUTOCAST_INPUTS_H_
#define CHX_CLIENT_AUTOCAST_INPUTS_H_

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "client/array.h"
#include "ops/op_def.h"

namespace chx::internal {

// Whether the calling thread has inputs of the operator cast.
bool IsAutocast(const OpDef& op);

// For such operators. Keeps what it has cast.
class AutocastInputs {
 public:
  absl::Status Cast(Session& session, const OpDef& op, absl::Span<const Operand> inputs);
  absl::Span<const Operand> operands() const { return operands_; }

 private:
  absl::InlinedVector<Operand, 4> operands_;
  ArrayPtrs arrays_;
};

}  // namespace chx::internal

#endif  // CHX_CLIENT_AUTOCAST_INPUTS_H_
