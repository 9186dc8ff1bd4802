#include "client/pending_commands.h"

#include <utility>

namespace chx {
namespace {

constexpr size_t kReleasesAtOnce = 32;
constexpr int64_t kReleasedBytes = 128 << 10;  // a part of what a core's own cache holds

}  // namespace

void PendingCommands::SealIfLarge() {
  if (records_.size() < max_batch_bytes_ / 2 && commands_ < max_batch_commands_ / 2) return;
  sealed_.push_back({std::exchange(records_, {}), std::exchange(commands_, 0)});
}

bool PendingCommands::Release(Handle handle, int64_t bytes) {
  released_.push_back(handle);
  released_bytes_ += bytes;
  // What frees much goes before the next operator: its result then takes the same memory, which is
  // still in the daemon's caches.
  return released_.size() >= kReleasesAtOnce || released_bytes_ >= kReleasedBytes;
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
