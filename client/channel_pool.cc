#include "client/channel_pool.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {

absl::StatusOr<std::string> ChannelPool::Token() {
  MutexLock lock(&mutex_);
  if (token_file_.empty()) return token_;
  std::ifstream file(token_file_, std::ios::binary);
  std::string text;
  if (file >> text && !text.empty()) token_ = text;
  if (token_.empty()) {
    return MakeError(ErrorKind::kConnection,
                     absl::StrCat("[connect] token_file expects a file with a token, got ",
                                  token_file_, ", which cannot be read or has none"));
  }
  return token_;
}

absl::StatusOr<std::unique_ptr<CallChannel>> ChannelPool::Take(Dialer::TimePoint deadline,
                                                               bool fresh) {
  if (!fresh) {
    MutexLock lock(&mutex_);
    if (idle_ != nullptr) return std::move(idle_);
  }
  CHX_ASSIGN_OR_RETURN(const std::string token, Token());
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Socket> socket, dialer_->Dial(deadline));
  return std::make_unique<CallChannel>(std::move(socket), token);
}

void ChannelPool::Return(std::unique_ptr<CallChannel> channel) {
  MutexLock lock(&mutex_);
  if (!closed_) idle_ = std::move(channel);
}

void ChannelPool::Close() {
  std::unique_ptr<CallChannel> idle;
  MutexLock lock(&mutex_);
  closed_ = true;
  idle = std::move(idle_);
}

}  // namespace chx
