// What a device may repeat as one: runs of a plan's steps.
#include <algorithm>
#include <iterator>
#include <utility>

#include "server/programs/plan.h"

namespace chx::server {
namespace {

// A temporary may live longer for that.
constexpr int64_t kMostKept = 64 << 10;

}  // namespace

// What only makes results comes behind all else: it can seldom be in a sequence, and would part
// one.
void Plan::MoveResultsLast(const Devices& devices) {
  std::vector<size_t> uses(objects_.size());
  std::vector<size_t> last_write(objects_.size());  // calls before and with it
  for (size_t i = 0; i < calls_.size(); ++i) {
    calls_[i].ForEachTensor([&](const TraceTensor& tensor) { ++uses[tensor.object]; });
    calls_[i].ForEachWritten([&](const TraceTensor& tensor) { last_write[tensor.object] = i + 1; });
  }
  std::vector<TraceCall> first;
  std::vector<TraceCall> last;
  for (size_t i = 0; i < calls_.size(); ++i) {
    TraceCall& call = calls_[i];
    const PreparedKernel& kernel = call.kernel;
    bool moves = devices.at(kernel.device).has_sequences() && !MayFailByValues(kernel) &&
                 !kernel.op->in_place && kernel.op->written_inputs == 0;
    for (const TraceTensor& output : call.outputs) {
      moves = moves && output.object >= 0 && uses[output.object] == 1 &&
              objects_[output.object].traced.kind == Kind::kResult;
    }
    for (const TraceTensor& input : call.inputs) {
      if (!moves || input.object < 0) continue;
      const TraceObject& object = objects_[input.object].traced;
      const bool is_large = object.kind == Kind::kTemporary && object.bytes > kMostKept;
      moves = last_write[input.object] <= i && !is_large;
    }
    (moves ? last : first).push_back(std::move(call));
  }
  calls_ = std::move(first);
  std::move(last.begin(), last.end(), std::back_inserter(calls_));
}

Sequences Plan::Parts(const Devices& devices, bool may_vary, bool with_results) const {
  Sequences sequences;
  Sequences::Part part;
  const auto end = [&](size_t step) {
    part.end = step;
    if (part.kernels.size() >= Sequences::kLeastKernels) sequences.Add(std::move(part));
    part = {};
  };
  for (size_t i = 0; i < steps_.size(); ++i) {
    const TraceCall& call = calls_[steps_[i].calls.first];
    const PreparedKernel& kernel = call.kernel;
    const auto is_its = [&](const AttrValue* attribute) {
      return attribute >= kernel.attrs.begin() && attribute < kernel.attrs.end();
    };
    const bool varies = std::any_of(slots_.begin(), slots_.end(), [&](const auto& slot) {
      return std::any_of(slot.begin(), slot.end(), is_its);
    });
    bool fits = steps_[i].fused == nullptr && (may_vary || !varies) && !MayFailByValues(kernel) &&
                devices.at(kernel.device).has_sequences();
    call.ForEachTensor([&](const TraceTensor& tensor) {
      const Kind kind = objects_[tensor.object].traced.kind;
      fits = fits && kind != Kind::kArgument && (with_results || kind != Kind::kResult);
    });
    if (!part.kernels.empty() && (!fits || kernel.device != part.device)) end(i);
    if (!fits) continue;
    if (part.kernels.empty()) part.begin = i;
    part.device = kernel.device;
    part.kernels.push_back(kernel.op->id);
  }
  end(steps_.size());
  return sequences;
}

void Plan::FindSequences(const Devices& devices) {
  sequences_ = Parts(devices, false, false);
  equal_sequences_ = Parts(devices, true, false);
  whole_sequences_ = Parts(devices, true, true);
  if (whole_sequences_.empty()) return;  // and so are the others
  if (whole_sequences_.steps() == equal_sequences_.steps()) whole_sequences_ = Sequences();
  if (equal_sequences_.steps() == sequences_.steps()) equal_sequences_ = Sequences();
  // Clients send new arguments for each run, and release results late.
  for (size_t i = 0; i < objects_.size(); ++i) {
    const Kind kind = objects_[i].traced.kind;
    if (kind != Kind::kArgument && kind != Kind::kResult) steady_.push_back(i);
  }
}

// Rates are the same in most runs; seeds and Adam's numbers are not. Two or three results take
// turns in most programs' memory.
Sequences* Plan::StartSequences(const Executor& executor, absl::Span<const int64_t> values) {
  const bool equal = absl::MakeConstSpan(last_values_) == values;
  last_values_.assign(values.begin(), values.end());
  // More than the least of them, unless some of it cannot be repeated.
  const auto is_more = [this](const Sequences& other) {
    return other.steps() > sequences_.steps();
  };
  if (equal && is_more(whole_sequences_)) {
    all_addresses_ = addresses_;
    for (const Object& object : objects_) {
      if (object.traced.kind == Kind::kResult) all_addresses_.push_back(object.address);
    }
    if (whole_sequences_.Start(executor, all_addresses_, values)) return &whole_sequences_;
  }
  if (equal && is_more(equal_sequences_) && equal_sequences_.Start(executor, addresses_, values))
    return &equal_sequences_;
  sequences_.Start(executor, addresses_, {});
  return &sequences_;
}

}  // namespace chx::server
