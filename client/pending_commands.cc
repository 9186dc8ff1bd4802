#include "client/pending_commands.h"

#include <utility>

namespace chx {
namespace {

// Fewer would cost the client more than it costs the daemon to wait for the next step.
constexpr size_t kStepBytes = 1 << 10;

}  // namespace

void PendingCommands::SealIfLarge() {
  if (records_.size() < max_batch_bytes_ / 2 && commands_ < max_batch_commands_ / 2) return;
  Seal();
}

bool PendingCommands::StepIsDue() const { return records_.size() >= kStepBytes; }

void PendingCommands::EndStep() {
  AppendReleases();
  if (commands_ > 0) Seal();
}

void PendingCommands::Seal() {
  sealed_.push_back({std::exchange(records_, {}), std::exchange(commands_, 0)});
}

bool PendingCommands::AppendReleases() {
  if (released_.empty()) return false;
  writer().Release(released_);
  Count();
  released_.clear();
  released_bytes_ = 0;
  SealIfLarge();
  return true;
}

uint32_t PendingCommands::Take(std::string* records, bool* more) {
  ++total_batches_;
  *more = !sealed_.empty();
  if (!*more) {
    records->swap(records_);
    return std::exchange(commands_, 0);
  }
  *records = std::move(sealed_.front().records);
  const uint32_t commands = sealed_.front().commands;
  sealed_.pop_front();
  return commands;
}

}  // namespace chx
