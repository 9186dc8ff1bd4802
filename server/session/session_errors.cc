// Errors as values under handles: how they are made, bound and inherited.
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/session/command_traits.h"
#include "server/session/session.h"

namespace chx {
namespace {

constexpr size_t kMaxUnreadErrors = 1000;
// Texts of errors: what clients send may be in them.
constexpr size_t kMaxMessageBytes = 2048;
constexpr int64_t kStatusBytes = 192;  // an error's Status, beside its message

// At most kMaxMessageBytes, without half a character at the end.
absl::Status Shortened(const absl::Status& status) {
  absl::string_view text = status.message();
  if (text.size() <= kMaxMessageBytes) return status;
  text = text.substr(0, kMaxMessageBytes);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) {
    text.remove_suffix(1);
  }
  if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xc0) text.remove_suffix(1);
  return MakeError(KindOf(status), absl::StrCat(text, "..."));
}

}  // namespace

RootErrorPtr Session::NewRootError(const Command& command, absl::Status status, std::string op,
                                   std::string inputs) {
  counters_.errors.store(counters_.errors.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
  status = Shortened(status);
  auto it = locations_.find(command.location);
  const bool located = command.location != 0 && it != locations_.end();
  const int64_t bytes = static_cast<int64_t>(sizeof(RootError)) + kStatusBytes +
                        TextBytes(status.message().size()) + TextBytes(op.size()) +
                        TextBytes(inputs.size()) + (located ? TextBytes(it->second.size()) : 0);
  absl::StatusOr<MemoryCharge> charge = MemoryCharge::Of(account(), bytes);
  if (!charge.ok()) return LostError();
  auto error = std::make_shared<RootError>();
  error->status = std::move(status);
  error->op = std::move(op);
  error->inputs = std::move(inputs);
  if (located) error->location = it->second;
  error->charge = *std::move(charge);
  return error;
}

const RootErrorPtr& Session::LostError() {
  if (lost_.error == nullptr) {
    lost_.error = std::make_shared<RootError>();
    lost_.error->status = MemoryError(
        "out of memory: the session or the daemon was at its limit, and there was no room to "
        "record what failed then");
  }
  return lost_.error;
}

RootErrorPtr Session::Fail(const Command& command, absl::Status status, std::string op,
                           std::string inputs, SessionOutput* output) {
  RootErrorPtr error = NewRootError(command, std::move(status), std::move(op), std::move(inputs));
  // Only what can be bound is: a handle in use keeps its value.
  Inherit(command, error);
  Handle first = 0;  // of a command that makes nothing
  if (!command.outputs.empty()) {
    first = command.outputs[0];
  } else if (IsUpload(command)) {
    first = command.handle;
  }
  output->errors.push_back({first, error});
  if (unread_errors_.size() < kMaxUnreadErrors) unread_errors_.push_back({first, error});
  return error;
}

void Session::Inherit(const Command& command, const RootErrorPtr& error) {
  const auto bind = [&](Handle handle) {
    if (handle == 0) return;
    if (entries_.size() >= static_cast<size_t>(limits_.max_handles) || !entries_.Reserve(1)) {
      LostError();
      return;
    }
    auto inserted = entries_.try_emplace(handle);
    if (inserted.second) inserted.first->second.error = error;
  };
  for (Handle handle : command.outputs) bind(handle);
  if (IsUpload(command)) bind(command.handle);
}

absl::Status Session::Annotate(const OpDef& op, const absl::Status& status) {
  return MakeError(KindOf(status), absl::StrCat("[", op.name, "] ", status.message()));
}

void Session::Poison(Handle handle, const RootErrorPtr& error) {
  Entry* entry = Find(handle);
  if (entry == nullptr || entry->error != nullptr) return;
  Drop(&entry->variable);
  entry->error = error;
}

}  // namespace chx
