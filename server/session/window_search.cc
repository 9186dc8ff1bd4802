#include "server/session/window_search.h"

#include <algorithm>
#include <variant>

#include "server/session/window_shape.h"

namespace chx::server {
namespace {

// Odd where it is a step.
uint32_t HashOf(const Command& command, WindowRole role) {
  uint64_t hash = command.index() + 1;
  const auto add = [&hash](uint64_t value) { hash = (hash ^ value) * 0x9E3779B97F4A7C15; };
  if (const auto* apply = std::get_if<command::ApplyOp>(&command)) {
    add(apply->op);
    add(apply->inputs.size() << 16 | apply->results.size() << 8 | apply->mode);
  }
  add(hash >> 32);
  const auto mixed = static_cast<uint32_t>(hash >> 32);
  return role == WindowRole::kStep ? mixed | 1 : mixed & ~uint32_t{1};
}

bool IsAnchor(const Command& command, WindowRole role) {
  return std::holds_alternative<command::Backward>(command) ||
         std::holds_alternative<command::Grad>(command) || role != WindowRole::kStep;
}

}  // namespace

size_t WindowSearch::Add(const Command& command) {
  if (hashes_.empty()) hashes_.resize(kKept);
  const WindowRole role = RoleOf(command);
  const uint32_t hash = HashOf(command, role);
  hashes_[count_++ % kKept] = hash;
  if (!IsAnchor(command, role)) return 0;
  size_t period = 0;
  for (size_t i = 1; i <= std::min(num_anchors_, anchors_.size()) && period == 0; ++i) {
    const Anchor& anchor = anchors_[(num_anchors_ - i) % anchors_.size()];
    if (anchor.hash == hash && Repeats(count_ - anchor.end)) period = count_ - anchor.end;
  }
  anchors_[num_anchors_++ % anchors_.size()] = {hash, count_};
  return period;
}

bool WindowSearch::Repeats(size_t period) const {
  if (period < kMinPeriod || period > kMaxPeriod || 2 * period > count_) return false;
  size_t steps = 0;
  for (size_t i = 1; i <= period; ++i) {
    const uint32_t hash = hashes_[(count_ - i) % kKept];
    if (hash != hashes_[(count_ - i - period) % kKept]) return false;
    steps += hash & 1;
  }
  return steps >= kMinPeriod;
}

}  // namespace chx::server
