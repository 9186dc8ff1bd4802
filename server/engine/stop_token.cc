#include "server/engine/stop_token.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"

namespace chx::server {
namespace {

thread_local const StopToken* current = nullptr;
thread_local Yielder* current_yielder = nullptr;

}  // namespace

StopReason StopToken::Begin(uint64_t batch) {
  noticed_.store(false, std::memory_order_relaxed);
  batch_.store(batch, std::memory_order_relaxed);
  uint64_t seen = state_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    if ((seen & kReason) == static_cast<uint64_t>(StopReason::kEnded)) return StopReason::kEnded;
    next = (seen / kNumber + 1) * kNumber + kRunning;
  } while (!state_.compare_exchange_weak(seen, next));
  // Cancel writes this before it looks at the state: one of the two sees the other.
  const bool cancelled = batch != 0 && cancelled_through_.load() >= batch;
  return cancelled ? StopReason::kCancelled : StopReason::kNone;
}

void StopToken::End() {
  uint64_t seen = state_.load(std::memory_order_relaxed);
  uint64_t next = 0;
  do {
    const bool ended = (seen & kReason) == static_cast<uint64_t>(StopReason::kEnded);
    next = (seen & ~(kRunning | kReason)) | (ended ? kReason : 0);
  } while (!state_.compare_exchange_weak(seen, next));
}

absl::Status StopToken::Error(absl::string_view op, StopReason reason) const {
  if (reason == StopReason::kDeadline) {
    return MakeError(ErrorKind::kTimeout,
                     absl::StrCat("[", op, "] exceeded --max-command-time of ",
                                  absl::FormatDuration(absl::FromChrono(max_command_time_))));
  }
  return MakeError(ErrorKind::kCancelled,
                   absl::StrCat("[", op, "] was cancelled",
                                reason == StopReason::kEnded ? ": its session has ended" : ""));
}

bool StopToken::Stop(uint64_t seen, StopReason reason) {
  return state_.compare_exchange_strong(seen, seen | static_cast<uint64_t>(reason));
}

void StopToken::Cancel(uint64_t through_batch) {
  uint64_t before = cancelled_through_.load();
  while (before < through_batch &&
         !cancelled_through_.compare_exchange_weak(before, through_batch)) {
  }
  for (;;) {
    const uint64_t seen = state_.load();
    // If the batch is that of a later command, the exchange fails.
    const uint64_t batch = batch_.load(std::memory_order_relaxed);
    if ((seen & kRunning) == 0 || (seen & kReason) != 0 || batch > through_batch) return;
    if (Stop(seen, StopReason::kCancelled)) return;
  }
}

void StopToken::EndSession() { state_.fetch_or(static_cast<uint64_t>(StopReason::kEnded)); }

void StopToken::Watch(std::chrono::steady_clock::time_point now) {
  if (max_command_time_.count() == 0) return;
  const uint64_t seen = state_.load();
  if ((seen & kRunning) == 0 || seen != watched_) {
    watched_ = seen;
    watched_since_ = now;
  } else if ((seen & kReason) == 0 && now - watched_since_ >= max_command_time_) {
    Stop(seen, StopReason::kDeadline);
  }
}

const StopToken* CurrentStopToken() { return current; }

void SetYielder(Yielder* yielder) { current_yielder = yielder; }

bool StopRequested() {
  if (current == nullptr) return false;
  if (current->Notice()) return true;
  if (current_yielder == nullptr) return false;
  current_yielder->Yield();
  return current->Notice();
}

StopScope::StopScope(const StopToken* token) : outer_(current) { current = token; }

StopScope::~StopScope() { current = outer_; }

WaitScope::WaitScope() : yielder_(std::exchange(current_yielder, nullptr)) {
  if (yielder_ != nullptr) yielder_->Leave();
}

WaitScope::~WaitScope() {
  if (yielder_ != nullptr) yielder_->Return();
  current_yielder = yielder_;
}

bool WaitIsStopped() { return current != nullptr && current->Notice(); }

absl::Status CheckNotStopped(absl::string_view op) {
  return StopRequested() ? current->Error(op) : absl::OkStatus();
}

}  // namespace chx::server
