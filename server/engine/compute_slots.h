// Fairness between sessions: which of them compute at a time, if more want to than there are cores.
#ifndef CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_
#define CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_

#include <atomic>
#include <chrono>

#include "base/mutex.h"
#include "server/engine/stop_token.h"
#include "server/engine/turn_queue.h"

namespace chx::server {

// Each session's commands run on a thread of their own. A thousand runnable threads would leave
// nothing for those who open sessions, list or kill them: the system gives each its turn. So only
// so many compute at a time; of the others a TurnQueue says who goes on, and who has computed for
// kSlice makes room at the next question whether to stop (StopRequested). With fewer sessions
// nobody waits, and a turn costs two looks at the clock.
//
// A thread that waits may hold its session's locks and no others. Thread-safe.
class ComputeSlots {
 public:
  using Duration = TurnClock::duration;
  static constexpr std::chrono::milliseconds kSlice{10};

  explicit ComputeSlots(int slots) : slots_(slots), queue_(slots) {}
  // Four for each core: where the system can still be fair by itself, it is.
  static int DefaultSlots();

  // A session's; its group outlives it.
  using Account = TurnAccount;

  // The calling thread carries out commands of a session as long as this exists. `slots` may be
  // null: it does not wait for that. Nor does it once `stop` tells it to stop.
  class Turn final : public Yielder {
   public:
    Turn(ComputeSlots* slots, Account* account, const StopToken* stop);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Lets another thread go on if this one has had its slice and others wait.
    void Yield() override;

   private:
    ComputeSlots* const slots_;
    Account* const account_;
    const StopToken* const stop_;
    TurnClock::time_point began_;
  };

  // Lets those go on that wait and are to stop. To be called by whoever has told them to.
  void WakeStopped();
  int waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  struct Waiter : TurnWaiter {
    const StopToken* stop = nullptr;
    CondVar wake;
    bool granted = false;
  };

  void Enter(Account* account, const StopToken* stop);
  void Leave(Account* account, Duration used);
  void GrantNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(TurnWaiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int slots_;
  std::atomic<int> waiting_{0};
  Mutex mutex_;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  TurnQueue queue_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_
