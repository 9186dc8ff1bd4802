#include "client/channel_pool.h"

#include "ops/error.h"

namespace chx {

absl::StatusOr<std::unique_ptr<CallChannel>> ChannelPool::Take(Dialer::TimePoint deadline,
                                                               bool fresh) {
  if (!fresh) {
    MutexLock lock(&mutex_);
    if (idle_ != nullptr) return std::move(idle_);
  }
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Socket> socket, dialer_->Dial(deadline));
  return std::make_unique<CallChannel>(std::move(socket), token_);
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
