// What the binding does around waits that are not at its own calls of Fetch or Flush, and in them.
#ifndef CHX_CLIENT_WAITING_H_
#define CHX_CLIENT_WAITING_H_

#include "absl/status/status.h"
#include "ops/error.h"

namespace chx {

// Exists while the calling thread waits for the daemon.
class Waiting {
 public:
  Waiting() : state_(begin_ == nullptr ? nullptr : begin_()) {}
  ~Waiting() {
    if (end_ != nullptr) end_(state_);
  }
  Waiting(const Waiting&) = delete;

  static void SetHooks(void* (*begin)(), void (*end)(void* state)) {
    begin_ = begin;
    end_ = end;
  }

 private:
  static inline void* (*begin_)() = nullptr;
  static inline void (*end_)(void* state) = nullptr;
  void* const state_;
};

// Whether a wait is to end without what it waits for: a signal's handler may want that. Asked by
// threads that hold no lock: the handler may use the session.
class Interruption {
 public:
  static void SetHook(bool (*asked)()) { asked_ = asked; }
  static bool Asked() { return asked_ != nullptr && asked_(); }
  // What the call then returns.
  static absl::Status Error() { return absl::CancelledError("interrupted"); }
  // Not an error of a command that was cancelled.
  static bool Is(const absl::Status& status) {
    return absl::IsCancelled(status) && KindOf(status) != ErrorKind::kCancelled;
  }

 private:
  static inline bool (*asked_)() = nullptr;
};

// What the binding does around waits: `begin` returns what `end` gets.
inline void SetWaitHooks(void* (*begin)(), void (*end)(void* state), bool (*interrupted)()) {
  Waiting::SetHooks(begin, end);
  Interruption::SetHook(interrupted);
}

}  // namespace chx

#endif  // CHX_CLIENT_WAITING_H_
