// A daemon's connection to where one of its groups has met.
#ifndef CHX_SERVER_COLLECTIVES_MEMBER_LINK_H_
#define CHX_SERVER_COLLECTIVES_MEMBER_LINK_H_

#include <cstdint>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/owned_fd.h"
#include "server/collectives/group_channel.h"

namespace chx::server {

class MemoryEngine;

// Shared by the engine and by the thread that follows what is said there. Thread-safe.
class MemberLink {
 public:
  explicit MemberLink(OwnedFd socket) : socket_(std::move(socket)), channel_(socket_.get()) {}

  GroupChannel& channel() { return channel_; }

  // The group is broken, as this daemon says. Of the engine's, under its lock.
  void Tell(const std::string& why, int64_t finished);
  // The group is broken, as others say. `finished`: collectives there before that.
  void Break(const std::string& why, int64_t finished);
  // From now on until Detach the engine is told. At its end, not under its lock.
  void Attach(MemoryEngine* engine);
  void Detach();

 private:
  const OwnedFd socket_;
  GroupChannel channel_;
  Mutex mutex_;
  MemoryEngine* engine_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_MEMBER_LINK_H_
