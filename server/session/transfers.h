// Connections that carry arrays of a session, to be cut when it ends: what they have on its way is
// the session's memory.
#ifndef CHX_SERVER_SESSION_TRANSFERS_H_
#define CHX_SERVER_SESSION_TRANSFERS_H_

#include <functional>
#include <list>
#include <utility>

#include "base/mutex.h"

namespace chx::server {

// A session's; thread-safe.
class Transfers {
 public:
  // One of them, for as long as it exists. `cut` makes its connection end; any thread may call it,
  // at once if the session has ended already.
  class Scope {
   public:
    Scope(Transfers* transfers, std::function<void()> cut) : transfers_(transfers) {
      MutexLock lock(&transfers_->mutex_);
      if (transfers_->ended_) cut();
      place_ = transfers_->cuts_.insert(transfers_->cuts_.end(), std::move(cut));
    }
    ~Scope() {
      MutexLock lock(&transfers_->mutex_);
      transfers_->cuts_.erase(place_);
    }
    Scope(const Scope&) = delete;

   private:
    Transfers* const transfers_;
    std::list<std::function<void()>>::iterator place_;
  };

  // Whether there is one.
  bool any() {
    MutexLock lock(&mutex_);
    return !cuts_.empty();
  }
  // The session has ended.
  void End() {
    MutexLock lock(&mutex_);
    ended_ = true;
    for (const auto& cut : cuts_) cut();
  }

 private:
  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<std::function<void()>> cuts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_TRANSFERS_H_
