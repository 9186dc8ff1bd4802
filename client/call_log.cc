#include "client/call_log.h"

#include <utility>

namespace chx {
namespace {

thread_local std::unique_ptr<CallLog> current;

}  // namespace

bool CallLog::Begin() {
  if (current != nullptr) return false;
  current = std::make_unique<CallLog>();
  return true;
}

std::unique_ptr<CallLog> CallLog::End() { return std::move(current); }

CallLog* CallLog::Current() { return current.get(); }

void CallLog::Note(const OpCall<Operand>& call, const ArrayPtrs& outputs) {
  Entry entry;
  entry.op = &call.op;
  for (const Operand& operand : call.inputs) {
    Input input;
    if (operand.is_array()) {
      input.array = ArrayPtr(const_cast<ArrayBody*>(operand.array()));
    } else if (operand.is_scalar()) {
      input.is_scalar = true;
      input.scalar = operand.scalar();
    }
    entry.inputs.push_back(std::move(input));
  }
  entry.attrs.assign(call.attrs.begin(), call.attrs.end());
  entry.outputs = outputs;
  entries_.push_back(std::move(entry));
}

}  // namespace chx
