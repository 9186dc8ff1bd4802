#include "server/collectives/member_link.h"

#include "server/collectives/memory_engine.h"

namespace chx::server {

void MemberLink::Tell(const std::string& why) {
  groups::Request request;
  request.mutable_broken()->set_why(why);
  channel_.Send(request);
}

void MemberLink::Break(const std::string& why) {
  const MutexLock lock(&mutex_);
  if (engine_ != nullptr) engine_->BreakElsewhere(why);
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
