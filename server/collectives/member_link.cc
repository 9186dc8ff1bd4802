#include "server/collectives/member_link.h"

#include "server/collectives/memory_engine.h"

namespace chx::server {

void MemberLink::Tell(const std::string& why, int64_t finished) {
  groups::Request request;
  request.mutable_broken()->set_why(why);
  request.mutable_broken()->set_finished(finished);
  channel_.Send(request);
}

void MemberLink::Break(const std::string& why, int64_t finished) {
  const MutexLock lock(&mutex_);
  if (engine_ != nullptr) engine_->BreakElsewhere(why, finished);
}

void MemberLink::Attach(MemoryEngine* engine) {
  const MutexLock lock(&mutex_);
  engine_ = engine;
}

void MemberLink::Detach() {
  const MutexLock lock(&mutex_);
  engine_ = nullptr;
  channel_.Cut();
}

}  // namespace chx::server
