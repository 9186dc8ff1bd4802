// Of a plan: values that operators check, such as labels, are checked before anything is written.
#include <algorithm>
#include <iterator>

#include "server/programs/plan.h"

namespace chx::server {
namespace {

// Calls between what there was before and what is checked: casts, mostly.
constexpr int kMaxDepth = 4;
constexpr int64_t kAnyBytes = 64;  // enough for any element
// Operators that take integers of any value.
constexpr const char* kTakesAll[] = {"all",    "amax",   "amin", "any", "argmax",
                                     "argmin", "astype", "copy", "sum"};

bool IsThere(const KernelTensor& tensor, const TraceTensor& traced) {
  return tensor.present && !tensor.is_scalar && traced.object >= 0;
}

}  // namespace

bool MayFailByValues(const PreparedKernel& kernel) {
  if (kernel.op->checked != nullptr || kernel.op->kind == OpKind::kCollective) return true;
  if (kernel.finds_errors_late) return false;
  if (std::find(std::begin(kTakesAll), std::end(kTakesAll), kernel.op->name) !=
      std::end(kTakesAll)) {
    return false;
  }
  const auto decides = [&](const KernelTensor& input) {
    return input.present && !input.is_scalar && MustNotChange(*kernel.op, input.dtype);
  };
  return !kernel.op->elementwise &&
         std::any_of(kernel.inputs.begin(), kernel.inputs.end(), decides);
}

int Plan::NewTemporary(DeviceId device, int64_t bytes) {
  objects_.emplace_back();
  objects_.back().traced.device = device;
  objects_.back().traced.bytes = bytes;
  return static_cast<int>(objects_.size()) - 1;
}

int Plan::SettledObject(int object, int depth, std::vector<TraceCall>* first) {
  const TraceObject& traced = objects_[object].traced;
  if (traced.kind == Kind::kArgument || traced.kind == Kind::kHeld) {
    return traced.written ? -1 : object;
  }
  if (traced.kind != Kind::kTemporary || depth == kMaxDepth) return -1;
  const TraceCall* maker = nullptr;
  int writes = 0;
  for (const TraceCall& call : calls_) {
    call.ForEachWritten([&](const TraceTensor& tensor) {
      if (tensor.object != object) return;
      maker = &call;
      ++writes;
    });
  }
  if (writes != 1 || maker->outputs.size() != 1 || maker->kernel.op->written_inputs != 0 ||
      MayFailByValues(maker->kernel)) {
    return -1;
  }
  TraceCall made = *maker;
  made.operation = -1;
  made.is_operator = false;
  for (TraceTensor& input : made.inputs) {
    if (input.object < 0) continue;
    input.object = SettledObject(input.object, depth + 1, first);
    if (input.object < 0) return -1;
  }
  made.outputs[0].object = NewTemporary(traced.device, traced.bytes);
  first->push_back(std::move(made));
  return first->back().outputs[0].object;
}

// The kernel itself, with the integers that it gets, and whatever floats there are.
bool Plan::AddCheck(const TraceCall& call, std::vector<TraceCall>* first) {
  const OpDef& op = *call.kernel.op;
  if (op.kind == OpKind::kCollective || op.checked != nullptr || op.stable_inputs || op.in_place ||
      op.written_inputs != 0) {
    return false;
  }
  TraceCall check = call;
  check.operation = -1;
  check.is_operator = false;
  for (size_t i = 0; i < check.inputs.size(); ++i) {
    KernelTensor& tensor = check.kernel.inputs[i];
    TraceTensor& traced = check.inputs[i];
    if (!IsThere(tensor, traced)) continue;
    if (MustNotChange(op, tensor.dtype)) {
      traced.object = SettledObject(traced.object, 0, first);
      if (traced.object < 0) return false;
    } else {
      traced = {NewTemporary(call.kernel.device, kAnyBytes), 0};
      tensor.strides = Strides(tensor.strides.size(), 0);
    }
  }
  for (size_t i = 0; i < check.outputs.size(); ++i) {
    const KernelTensor& tensor = check.kernel.outputs[i];
    if (!IsThere(tensor, check.outputs[i])) continue;
    const int64_t bytes = tensor.size() * ItemSize(tensor.dtype);
    check.outputs[i] = {NewTemporary(call.kernel.device, bytes), 0};
  }
  first->push_back(std::move(check));
  return true;
}

void Plan::CheckFirst() {
  std::vector<TraceCall> first;
  bool written = false;
  for (TraceCall& call : calls_) {
    written = written || WritesOutside(call);
    if (written && MayFailByValues(call.kernel)) call.checked = AddCheck(call, &first);
  }
  calls_.insert(calls_.begin(), std::make_move_iterator(first.begin()),
                std::make_move_iterator(first.end()));
}

}  // namespace chx::server
