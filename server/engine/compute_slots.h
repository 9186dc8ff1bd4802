// Fairness between sessions: which of them compute at a time, if more want to than there are cores.
#ifndef CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_
#define CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "server/engine/background_threads.h"
#include "server/engine/stop_token.h"
#include "server/engine/turn_queue.h"

namespace chx::server {

// Each session's commands run on a thread of their own. Were all of them runnable, the system would
// cut them, and their clients, into turns of its own, as it likes and with cold caches. So only so
// many sessions have a turn at a time; of the others a TurnQueue says who goes on.
//
// A turn lasts for kSlice if others wait. It goes on between commands: a client on this host that
// answers quickly finds its turn kept for a moment, so that each session computes for a while and
// its client, too. Whoever wants less than its share goes on at once, beside those who have turns.
// With fewer sessions than slots nobody waits, and a turn costs two looks at the clock.
//
// Commands of a session that takes long run on threads of low priority if other sessions compute,
// too: then a short command, and its client, have a core at once. It does not wait for the slots of
// these threads, and they have what it leaves, or, if that is too little, normal priority again.
//
// A thread that waits may hold its session's locks and no others. Thread-safe.
class ComputeSlots {
 public:
  using Duration = TurnClock::duration;
  using Time = TurnClock::time_point;
  static constexpr std::chrono::milliseconds kSlice{4};
  // A turn is kept for clients that pause no longer than that between commands. Others lose it,
  // and are tried again from time to time: a client that has to wait for a core pauses, too.
  static constexpr std::chrono::microseconds kMostPause{150};
  static constexpr std::chrono::milliseconds kTrial{1};
  static constexpr int kTrials = 3;
  static constexpr std::chrono::milliseconds kNoTrial{100};
  // A session whose commands, sent together, take longer is one that takes long.
  static constexpr std::chrono::milliseconds kLong{1};
  // Who has computed before this computes no longer.
  static constexpr std::chrono::seconds kForgotten{2};

  // So many have a turn at a time, and at most `most` with those who want less than their share.
  explicit ComputeSlots(int slots, int most = 0)
      : slots_(slots), most_(most == 0 ? slots : most), queue_(slots) {}
  // One for each core, and four.
  static int DefaultSlots();
  static int MostSlots();

  // A session's; its group outlives it. All but the first line is ComputeSlots' own.
  struct Account : TurnAccount {
    bool local = false;  // its client is on this host

    uint64_t kept = 0;  // the number of the turn that was kept for it; 0: none
    Time began;         // its turn
    Time left;          // its last command's end
    int misses = 1;     // how often in a row it came too late for the turn that was kept
    Time keep_from;     // not before
    Duration waited{};  // for turns
    bool takes_long = false;
    bool low = false;    // it has its turn, or waits for it, at low priority
    Time starved_until;  // it gets too little at low priority
    Duration low_time{};
    Duration low_cpu_time{};
  };

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
    Time resumed_;
  };

  // Calls `commands` in a turn, on this or on another thread. As above.
  static void Run(ComputeSlots* slots, Account* account, const StopToken* stop,
                  absl::FunctionRef<void()> commands);

  // Lets those go on that wait and are to stop. To be called by whoever has told them to.
  void WakeStopped();
  int waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  struct Waiter : TurnWaiter {
    const StopToken* stop = nullptr;
    CondVar wake;
    bool granted = false;
  };
  // A turn between two commands.
  struct Kept {
    uint64_t number;
    Time until;
  };

  // `now` is when the caller looked at the clock. Returns when it goes on.
  Time Enter(Account* account, const StopToken* stop, Time now);
  void Leave(Account* account, Duration used, Time now);
  bool MayGoOn(Account* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether its turn was kept and goes on.
  bool TakeKept(Account* account, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(Account* account, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropLate(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(Account* account, const StopToken* stop, Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GrantNext(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(TurnWaiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunAtLowPriority(Account* account, const StopToken* stop,
                        absl::FunctionRef<void()> commands);
  // Whether another session has computed lately.
  bool Shared(Time now) const {
    return now.time_since_epoch().count() - others_.load(std::memory_order_relaxed) <
           Duration(kForgotten).count();
  }

  const int slots_;
  const int most_;
  std::atomic<int> waiting_{0};
  // When another session computed than before; at first long ago.
  std::atomic<Duration::rep> others_{Duration::min().count() / 2};
  Mutex mutex_;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;  // with kept_
  int low_active_ ABSL_GUARDED_BY(mutex_) = 0;
  int low_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  const void* last_account_ ABSL_GUARDED_BY(mutex_) = nullptr;
  const Waiter* watcher_ ABSL_GUARDED_BY(mutex_) = nullptr;  // looks for turns kept in vain
  TurnQueue queue_ ABSL_GUARDED_BY(mutex_);
  BackgroundThreads background_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_
