#include "client/autocast.h"

#include <vector>

#include "client/autocast_inputs.h"
#include "client/session.h"
#include "ops/autocast.h"
#include "ops/op_call.h"
#include "ops/registry.h"

namespace chx {
namespace {

std::vector<absl::optional<Dtype>>& AutocastStack() {
  static thread_local std::vector<absl::optional<Dtype>> stack;
  return stack;
}

}  // namespace

void PushAutocast(absl::optional<Dtype> dtype) { AutocastStack().push_back(dtype); }
void PopAutocast() { AutocastStack().pop_back(); }

absl::optional<Dtype> CurrentAutocast() {
  const std::vector<absl::optional<Dtype>>& stack = AutocastStack();
  return stack.empty() ? absl::nullopt : stack.back();
}

namespace internal {

bool IsAutocast(const OpDef& op) {
  return CurrentAutocast().has_value() && AutocastRuleOf(op) != AutocastRule::kNone;
}

absl::Status AutocastInputs::Cast(Session& session, const OpDef& op,
                                  absl::Span<const Operand> inputs) {
  static const OpDef& astype = *OpRegistry::Global().Find("astype");
  operands_.assign(inputs.begin(), inputs.end());
  for (Operand& operand : operands_) {
    if (!operand.is_array()) continue;
    const Dtype from = operand.array()->spec.dtype;
    const Dtype to = AutocastDtype(AutocastRuleOf(op), from, *CurrentAutocast());
    if (to == from) continue;
    const AttrValue dtype(to);
    ArrayPtrs made;
    CHX_RETURN_IF_ERROR(session.Apply(
        {astype, absl::MakeConstSpan(&operand, 1), absl::MakeConstSpan(&dtype, 1)}, &made));
    arrays_.push_back(made[0]);
    operand = Operand(made[0].get());
  }
  return absl::OkStatus();
}

}  // namespace internal
}  // namespace chx
