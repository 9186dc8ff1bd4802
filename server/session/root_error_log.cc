#include "server/session/root_error_log.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::server {
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

absl::Status Annotate(const std::string& op, const absl::Status& status) {
  return MakeError(KindOf(status), absl::StrCat("[", op, "] ", status.message()));
}

RootErrorPtr RootErrorLog::NewError(uint32_t location, absl::Status status, std::string op,
                                    std::string inputs) {
  ++count_;
  (*counts_)[static_cast<size_t>(KindOf(status))].Add();
  status = Shortened(status);
  const std::string* const location_text = definitions_->FindLocation(location);
  const int64_t bytes = static_cast<int64_t>(sizeof(RootError)) + kStatusBytes +
                        TextBytes(status.message().size()) + TextBytes(op.size()) +
                        TextBytes(inputs.size()) +
                        (location_text != nullptr ? TextBytes(location_text->size()) : 0);
  absl::StatusOr<MemoryCharge> charge = MemoryCharge::Of(account_, bytes);
  if (!charge.ok()) return handles_->LostError();
  auto error = std::make_shared<RootError>();
  error->status = std::move(status);
  error->op = std::move(op);
  error->inputs = std::move(inputs);
  if (location_text != nullptr) error->location = *location_text;
  error->charge = *std::move(charge);
  return error;
}

void RootErrorLog::AddUnread(Handle handle, const RootErrorPtr& error) {
  if (unread_.size() < kMaxUnreadErrors) unread_.push_back({handle, error});
}

std::vector<SessionOutput::Error> RootErrorLog::ListUnread(size_t max) const {
  std::vector<SessionOutput::Error> unread;
  for (const SessionOutput::Error& error : unread_) {
    if (!error.error->read && unread.size() < max) unread.push_back(error);
  }
  return unread;
}

}  // namespace chx::server
