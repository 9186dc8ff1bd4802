#include "server/observability/counters.h"

#include <algorithm>

#include "ops/registry.h"

namespace chx::server {
namespace {

template <typename Counters>
void AddEach(const Counters& from, Counters* to) {
  for (size_t i = 0; i < from.size(); ++i) (*to)[i].Add(from[i].value());
}

}  // namespace

OpGroups::OpGroups() {
  for (const auto& op : OpRegistry::Global().ops()) {
    auto it = std::find(names_.begin(), names_.end(), op->group);
    // More groups than there is room for share the last one.
    if (it == names_.end() && names_.size() < kMax) it = names_.insert(it, op->group);
    if (it == names_.end()) --it;
    by_op_.push_back(static_cast<uint8_t>(it - names_.begin()));
  }
}

const OpGroups& OpGroups::Global() {
  static const auto* const groups = new OpGroups;
  return *groups;
}

void DeviceCounters::Add(const DeviceCounters& other) {
  for (size_t i = 0; i < groups.size(); ++i) {
    groups[i].kernels.Add(other.groups[i].kernels.value());
    groups[i].nanoseconds.Add(other.groups[i].nanoseconds.value());
  }
  busy_nanoseconds.Add(other.busy_nanoseconds.value());
  live_bytes.Add(other.live_bytes.value());
  held_bytes.Add(other.held_bytes.value());
  spilled_bytes.Add(other.spilled_bytes.value());
  trims.Add(other.trims.value());
}

void KernelTimer::Begin(int64_t bytes) {
  weight_ = 1;
  if (bytes < kLargeBytes) {
    // Random gaps of 1 to 31: a loop whose period is a multiple of a fixed one would be measured at
    // one place only.
    counters_->random = counters_->random * 1664525 + 1013904223;
    counters_->until_sample = 1 + static_cast<int>((counters_->random >> 8) % (2 * kMeanGap - 1));
    weight_ = kMeanGap;
  }
  began_ = std::chrono::steady_clock::now();
}

void KernelTimer::End() {
  const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - began_;
  group_->nanoseconds.Add(weight_ * taken.count());
  *counters_->measured += weight_ * taken.count();
}

void SessionCounters::Add(const SessionCounters& other) {
  for (size_t i = 0; i < devices.size(); ++i) devices[i].Add(other.devices[i]);
  commands.Add(other.commands.value());
  slow_commands.Add(other.slow_commands.value());
  repeated_windows.Add(other.repeated_windows.value());
  wait_nanoseconds.Add(other.wait_nanoseconds.value());
  AddEach(other.errors, &errors);
  opened.Add(other.opened.value());
  resumes.Add(other.resumes.value());
  AddEach(other.ended, &ended);
  AddEach(other.received_bytes, &received_bytes);
  AddEach(other.sent_bytes, &sent_bytes);
}

std::array<SharedCounter, kNumRefusals>& Refusals() {
  static auto* const refusals = new std::array<SharedCounter, kNumRefusals>;
  return *refusals;
}

}  // namespace chx::server
