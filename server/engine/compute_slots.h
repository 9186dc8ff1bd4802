// Fairness between sessions: which of them compute at a time, if more want to than there are cores.
#ifndef CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_
#define CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
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
// has waited for an answer and comes back quickly finds its turn kept, so that each session
// computes for a while and its client, too, both on the turn's core. Whoever wants much less than
// its share goes on at once, beside those who have turns. With fewer sessions than slots nobody
// waits, and a turn costs two looks at the clock.
//
// Commands of a session that takes long run on threads of low priority, which leave one core alone,
// while another session is expected to have short commands soon: then these, and their client, have
// a core at once. They do not wait for the slots of these threads, which have what they leave, or,
// if that is too little, normal priority again.
//
// A thread that waits may hold its session's locks and no others. Thread-safe.
class ComputeSlots {
 public:
  using Duration = TurnClock::duration;
  using Time = TurnClock::time_point;
  static constexpr std::chrono::milliseconds kSlice{4};
  // A turn is kept so long for clients that mostly pause no longer than kMostPause between
  // commands. For others it is not, and they are tried again from time to time.
  static constexpr std::chrono::microseconds kKept{500};
  static constexpr std::chrono::microseconds kMostPause{400};
  static constexpr int kMostMisses = 8;
  static constexpr int kTrials = 3;
  static constexpr std::chrono::milliseconds kNoTrial{100};
  // A session whose commands, sent together, take longer is one that takes long.
  static constexpr std::chrono::milliseconds kLong{1};
  // After short commands a session is expected to have the next ones within twice its usual pause,
  // but at least and at most this. The longest pause counts as the usual one; it shrinks by a part
  // with each run of commands, as a step may have several. Longer ones than
  // the most do not count: who was away does not come every few seconds.
  static constexpr std::chrono::milliseconds kLeastExpected{50};
  static constexpr std::chrono::seconds kMostExpected{2};
  static constexpr int kPausePart = 32;

  // So many have a turn at a time, and at most `most` with those who want less than their share.
  explicit ComputeSlots(int slots, int most = 0);
  // One for each core, and four.
  static int DefaultSlots();
  static int MostSlots();

  // A session's; its group outlives it. All but the first two lines is ComputeSlots' own.
  struct Account : TurnAccount {
    bool local = false;    // its client is on this host
    bool awaited = false;  // its last commands had an answer, which the client may wait for

    uint64_t kept = 0;                   // the number of the turn that was kept for it; 0: none
    int slot = -1;                       // its turn's; -1: it is beside those that have slots
    Time began;                          // its turn
    Time left;                           // its last command's end
    int misses = kMostMisses - kTrials;  // how many more pauses were long than short, lately
    Time keep_from;                      // not before
    Duration waited{};                   // for turns and in WaitScopes, in all
    bool takes_long = false;
    int differing_runs = 0;  // the last ones that were not as takes_long says
    Time last_short;         // when it has had short commands
    Duration pause{};        // the usual one between them
    bool low = false;        // it has its turn, or waits for it, at low priority
    Time starved_until;      // it gets too little at low priority
    Duration low_time{};
    Duration low_cpu_time{};
    int low_beside = 1;  // how many had low priority at the same time, with it
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
    void Leave() override;
    void Return() override;

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
  // Whether commands run at low priority: what others leave of a core is theirs.
  bool RunsLong() const { return low_active_.load(std::memory_order_relaxed) > 0; }
  int waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  struct Waiter : TurnWaiter {
    const StopToken* stop = nullptr;
    // Of whoever wakes it, too: it may be gone by then.
    std::shared_ptr<CondVar> wake = std::make_shared<CondVar>();
    bool granted = false;
  };
  // Holds mutex_, and wakes those in to_wake_ when it no longer does: one that wakes with a higher
  // priority, or with the same one on its core, would have this thread wait with the mutex.
  class ABSL_SCOPED_LOCKABLE Lock {
   public:
    explicit Lock(ComputeSlots* slots) ABSL_EXCLUSIVE_LOCK_FUNCTION(slots->mutex_);
    ~Lock() ABSL_UNLOCK_FUNCTION();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    ComputeSlots* const slots_;
  };
  // A turn between two commands.
  struct Kept {
    uint64_t number;
    int slot;
    Time until;
  };

  // `now` is when the caller looked at the clock. Returns when it goes on.
  Time Enter(Account* account, const StopToken* stop, Time now);
  Time TakeTurn(Account* account, const StopToken* stop, Time now);
  // `keep`: the turn may go on if the thread comes back soon.
  void Leave(Account* account, Duration used, Time now, bool keep = true);
  void Begin(Account* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(int slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayGoOn(Account* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether its turn was kept and goes on.
  bool TakeKept(Account* account, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void NotePause(Account* account, Time now);
  void DropLate(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(Account* account, const StopToken* stop, Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GrantNext(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(TurnWaiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Without the mutex in between.
  void WakeGranted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The processor time that the commands took.
  Duration RunAtLowPriority(Account* account, const StopToken* stop,
                            absl::FunctionRef<void()> commands);
  static void NoteLength(Account* account, bool is_long);
  void NoteShort(Account* account, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether another session is expected to have short commands.
  bool ExpectsShortBeside(const Account* account, Time now);

  const int slots_;
  const int most_;
  std::atomic<int> waiting_{0};
  std::atomic<int> low_active_{0};  // written under mutex_
  // When one had waited for its turn.
  std::atomic<Duration::rep> contended_{Duration::min().count() / 2};
  Mutex mutex_;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;  // with kept_
  std::vector<int> free_slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<CondVar>> to_wake_ ABSL_GUARDED_BY(mutex_);
  int low_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last two sessions with short commands.
  struct Short {
    const void* account = nullptr;
    Time expected_until;
  };
  std::array<Short, 2> short_ ABSL_GUARDED_BY(mutex_);
  const Waiter* watcher_ ABSL_GUARDED_BY(mutex_) = nullptr;  // looks for turns kept in vain
  TurnQueue queue_ ABSL_GUARDED_BY(mutex_);
  BackgroundThreads background_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_COMPUTE_SLOTS_H_
