#include "server/session/pending_passes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"

namespace chx::server {
namespace {

constexpr size_t kMaxPasses = 256;  // one inside of another

}  // namespace

absl::Status PendingPasses::CheckNew(uint64_t number) {
  if (passes_.size() >= kMaxPasses) {
    return MemoryError("[backward] expects at most ", kMaxPasses,
                       " backward passes that wait for the client");
  }
  if (passes_.contains(number)) {
    return ValueError("[backward] expects a new number, got ", number);
  }
  if (!passes_.Reserve(1)) {
    return MemoryError("[backward] ", meter_->Exhausted(sizeof(PendingPass)).message());
  }
  return absl::OkStatus();
}

void PendingPasses::Add(uint64_t number, PendingPass pass) {
  if (patience_.count() > 0) pass.deadline = std::chrono::steady_clock::now() + patience_;
  passes_.try_emplace(number, std::move(pass));
}

absl::StatusOr<PendingPass*> PendingPasses::Find(uint64_t number) {
  auto it = passes_.find(number);
  if (it == passes_.end()) {
    return ValueError("[backward] expects a backward pass that waits for the client, got ", number);
  }
  return &it->second;
}

absl::StatusOr<PendingPass> PendingPasses::Take(uint64_t number) {
  CHX_ASSIGN_OR_RETURN(PendingPass * found, Find(number));
  PendingPass pass = std::move(*found);
  passes_.erase(passes_.find(number));
  return pass;
}

absl::Status PendingPasses::CheckInTime(const PendingPass& pass) const {
  if (pass.backprop != nullptr && std::chrono::steady_clock::now() < pass.deadline) {
    return absl::OkStatus();
  }
  return MakeError(ErrorKind::kTimeout,
                   absl::StrCat("[backward] expects the client's functions to take at most ",
                                absl::FormatDuration(absl::FromChrono(patience_)),
                                ", got one that took longer"));
}

void PendingPasses::EndLate() {
  const auto now = std::chrono::steady_clock::now();
  for (auto& [number, pass] : passes_) {
    if (pass.deadline <= now) pass.backprop = nullptr;
  }
}

}  // namespace chx::server
