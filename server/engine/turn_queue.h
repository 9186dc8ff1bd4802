// Who computes next: the policy of ComputeSlots, without threads and clocks.
#ifndef CHX_SERVER_ENGINE_TURN_QUEUE_H_
#define CHX_SERVER_ENGINE_TURN_QUEUE_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace chx::server {

using TurnClock = std::chrono::steady_clock;

struct TurnGroup;
// What so much counts for a group.
TurnClock::duration Weighted(TurnClock::duration used, const TurnGroup& group);

// What sessions have that share one share of the device: those of a tenant. Weight and priority may
// change at any time; whatever guards the TurnQueue guards the others.
struct TurnGroup {
  explicit TurnGroup(double weight = 1, int priority = 0) : weight(weight), priority(priority) {}
  std::atomic<double> weight;  // its share beside groups of the same priority
  std::atomic<int> priority;   // higher goes first

  TurnClock::duration used{};   // what its sessions have had, divided by its weight
  TurnClock::duration floor{};  // what the last of its sessions that went on had had
};

// A session's.
struct TurnAccount {
  TurnGroup* group = nullptr;  // null: the queue's own, that of all who have none
  TurnClock::duration used{};
};

// One who waits for a turn.
struct TurnWaiter {
  TurnAccount* account = nullptr;
};

// Divides time by weight among groups, and evenly among the sessions of a group. Who comes after a
// pause starts level with the others: it does not make up for the pause, and what it had while
// nobody waited is no debt beyond kMostDebt of all slots (a session: of one). A higher priority
// goes first, but a group that has had no turn for kAging counts as one class higher, and so on:
// nobody waits without end.
//
// A session that wants much less than its share need not wait for those who want more (GoesFirst).
//
// The next group is found by looking at all that wait: daemons have tens of tenants, not thousands.
class TurnQueue {
 public:
  static constexpr std::chrono::milliseconds kMostDebt{100};
  static constexpr std::chrono::milliseconds kAging{500};
  // How much less a session has had than others after a long pause, at most; who has had kFarBehind
  // less goes first. Those who take turns differ by a few milliseconds.
  static constexpr std::chrono::milliseconds kHeadStart{20};
  static constexpr std::chrono::milliseconds kFarBehind{10};

  // So many have a turn at a time.
  explicit TurnQueue(int slots) : slots_(slots) {}

  void Add(TurnWaiter* waiter, TurnClock::time_point now);
  void Remove(TurnWaiter* waiter);
  // Who would go next; null: nobody waits.
  TurnWaiter* Next(TurnClock::time_point now) const;
  // That one, who waits no longer.
  TurnWaiter* TakeNext(TurnClock::time_point now);
  // Whether one that does not wait yet may go on beside those who have a turn: it is far behind
  // each of its group that has gone on, its group is not far ahead, and nobody of a higher priority
  // waits. Not for ever: what it has is charged.
  bool GoesFirst(TurnAccount* account);
  // A session has had so much; `waiting`: it waits already.
  void Charge(TurnAccount* account, TurnClock::duration used, TurnWaiter* waiting = nullptr);

  bool empty() const { return waiting_ == 0; }
  size_t size() const { return waiting_; }
  // One that will wait for long; null: nobody waits.
  TurnWaiter* Last() const;
  // All who wait, in no order.
  std::vector<TurnWaiter*> Waiters() const;

 private:
  // By what their sessions have had.
  using SessionLine = std::set<std::pair<TurnClock::duration, TurnWaiter*>>;
  struct GroupLine {
    TurnGroup* group;
    TurnClock::time_point since;  // when it began to wait, or had its last turn
    SessionLine waiters;          // not empty
  };

  TurnGroup* GroupOf(const TurnAccount& account);
  std::vector<GroupLine>::iterator LineOf(TurnGroup* group);
  std::vector<GroupLine>::const_iterator NextLine(TurnClock::time_point now) const;

  const int slots_;
  TurnGroup own_;
  std::vector<GroupLine> lines_;
  size_t waiting_ = 0;
  TurnClock::duration floor_{};  // what the last group that went on had had
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_TURN_QUEUE_H_
