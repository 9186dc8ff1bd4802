#include "server/engine/turn_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

namespace chx::server {
namespace {

using std::chrono::milliseconds;
constexpr TurnClock::duration kSlice = milliseconds(10);

// A device with slots on which sessions compute slice after slice: nothing of it takes time.
class Simulation {
 public:
  explicit Simulation(int slots) : queue_(slots), free_(slots) {}

  TurnGroup* AddGroup(double weight, int priority = 0) {
    groups_.emplace_back(weight, priority);
    return &groups_.back();
  }
  // A session that always has something to compute.
  void AddSession(TurnGroup* group) {
    sessions_.emplace_back();
    sessions_.back().account.group = group;
    Wait(&sessions_.back());
  }
  void Run(TurnClock::duration time) {
    const auto end = now_ + time;
    while (now_ < end) {
      while (free_ > 0 && !queue_.empty()) {
        auto* const next = static_cast<Session*>(queue_.TakeNext(now_));
        --free_;
        running_.emplace(now_ + kSlice, next);
      }
      Session* session;
      std::tie(now_, session) = running_.top();
      running_.pop();
      ++free_;
      had_[session->account.group] += kSlice;
      queue_.Charge(&session->account, kSlice);
      Wait(session);
    }
  }
  // A group's part of all time since the last call.
  double Share(TurnGroup* group) const {
    TurnClock::duration all{};
    for (const auto& entry : had_) all += entry.second;
    const auto had = had_.find(group);
    return had == had_.end() ? 0 : static_cast<double>(had->second.count()) / all.count();
  }
  void Forget() { had_.clear(); }

 private:
  struct Session : TurnWaiter {
    TurnAccount account;
  };
  void Wait(Session* session) {
    session->TurnWaiter::account = &session->account;
    queue_.Add(session, now_);
  }

  TurnQueue queue_;
  int free_;
  TurnClock::time_point now_{};
  std::deque<TurnGroup> groups_;
  std::deque<Session> sessions_;
  std::priority_queue<std::pair<TurnClock::time_point, Session*>,
                      std::vector<std::pair<TurnClock::time_point, Session*>>, std::greater<>>
      running_;
  std::map<TurnGroup*, TurnClock::duration> had_;
};

TEST(TurnQueueTest, GroupsShareByWeightWhateverTheirSessions) {
  for (const int slots : {1, 2, 3}) {
    for (const double weight : {0.5, 1.0, 3.0}) {
      Simulation device(slots);
      TurnGroup* const one = device.AddGroup(weight);
      TurnGroup* const other = device.AddGroup(1);
      for (int i = 0; i < slots; ++i) device.AddSession(one);
      for (int i = 0; i < 60; ++i) device.AddSession(other);
      device.Run(std::chrono::seconds(60));
      EXPECT_NEAR(device.Share(one), weight / (weight + 1), 0.01) << slots << " " << weight;
      EXPECT_NEAR(device.Share(other), 1 / (weight + 1), 0.01);
    }
  }
}

TEST(TurnQueueTest, AChangedWeightIsThatOfAllItsSessions) {
  Simulation device(2);
  TurnGroup* const one = device.AddGroup(1);
  TurnGroup* const other = device.AddGroup(1);
  for (int i = 0; i < 4; ++i) device.AddSession(i % 2 == 0 ? one : other);
  device.Run(std::chrono::seconds(10));
  EXPECT_NEAR(device.Share(one), 0.5, 0.01);
  one->weight = 3;
  device.AddSession(one);
  device.Forget();
  device.Run(std::chrono::seconds(10));
  EXPECT_NEAR(device.Share(one), 0.75, 0.02);
}

TEST(TurnQueueTest, ALateGroupStartsLevel) {
  Simulation device(2);
  TurnGroup* const early = device.AddGroup(1);
  for (int i = 0; i < 4; ++i) device.AddSession(early);
  device.Run(std::chrono::hours(1));
  TurnGroup* const late = device.AddGroup(1);
  for (int i = 0; i < 4; ++i) device.AddSession(late);
  device.Forget();
  device.Run(std::chrono::seconds(10));
  // It makes up for nothing, but for what the other has had in advance: 100 ms of both slots.
  EXPECT_NEAR(device.Share(late), 0.5, 0.02);
}

TEST(TurnQueueTest, PriorityGoesFirstAndNobodyWaitsForEver) {
  Simulation device(1);
  TurnGroup* const high = device.AddGroup(1, 1);
  TurnGroup* const low = device.AddGroup(1000, -1);
  for (int i = 0; i < 3; ++i) device.AddSession(high);
  for (int i = 0; i < 3; ++i) device.AddSession(low);
  device.Run(std::chrono::seconds(100));
  // Two classes lower: a slice about every 1.0 s.
  EXPECT_GT(device.Share(low), 0.005);
  EXPECT_LT(device.Share(low), 0.02);
}

TEST(TurnQueueTest, ALongQueueDoesNotRaiseItsGroup) {
  Simulation device(1);
  TurnGroup* const crowded = device.AddGroup(1);
  TurnGroup* const small = device.AddGroup(3);
  for (int i = 0; i < 1000; ++i) device.AddSession(crowded);  // each waits for 40 s
  device.AddSession(small);
  device.Run(std::chrono::seconds(200));
  EXPECT_NEAR(device.Share(small), 0.75, 0.01);
}

// Sessions of one group that have each had a turn of this length, and wait for the next.
class Busy {
 public:
  Busy(TurnQueue* queue, int count, TurnGroup* group = nullptr) : queue_(queue), waiters_(count) {
    for (Session& session : waiters_) {
      session.account.group = group;
      session.TurnWaiter::account = &session.account;
      queue_->Add(&session, {});
    }
  }
  void TakeTurns(int count) {
    for (int i = 0; i < count; ++i) {
      TurnWaiter* const next = queue_->TakeNext({});
      queue_->Charge(next->account, kSlice);
      queue_->Add(next, {});
    }
  }
  TurnAccount* account(int i) { return &waiters_[i].account; }

 private:
  struct Session : TurnWaiter {
    TurnAccount account;
  };
  TurnQueue* const queue_;
  std::vector<Session> waiters_;
};

TEST(TurnQueueTest, WhoWantsLittleGoesFirst) {
  TurnQueue queue(2);
  Busy hogs(&queue, 4);
  hogs.TakeTurns(8);
  TurnAccount small;
  for (int i = 0; i < 100; ++i) {
    hogs.TakeTurns(4);  // 10 ms for each
    EXPECT_TRUE(queue.GoesFirst(&small)) << i;
    queue.Charge(&small, milliseconds(5));
  }
}

TEST(TurnQueueTest, WhoWantsMoreThanItsShareDoesNotGoFirst) {
  TurnQueue queue(2);
  Busy hogs(&queue, 4);
  hogs.TakeTurns(100);
  TurnAccount greedy;
  // It has a head start, and no more: however long it was away.
  int first = 0;
  while (queue.GoesFirst(&greedy)) {
    queue.Charge(&greedy, milliseconds(1));
    ++first;
  }
  EXPECT_EQ(first, (TurnQueue::kHeadStart - TurnQueue::kFarBehind) / milliseconds(1) + 1);
  // Nor do those who have just had a slice.
  EXPECT_FALSE(queue.GoesFirst(hogs.account(0)));
}

TEST(TurnQueueTest, ManySmallSessionsDoNotMakeTheirGroupFirst) {
  TurnQueue queue(1);
  TurnGroup other, crowd;
  Busy hogs(&queue, 2, &other);
  Busy crowd_hogs(&queue, 2, &crowd);
  TurnClock::duration small_had{};
  constexpr int kTurns = 1000;
  for (int i = 0; i < kTurns; ++i) {
    TurnWaiter* const next = queue.TakeNext({});
    queue.Charge(next->account, kSlice);
    queue.Add(next, {});
    for (int j = 0; j < 4; ++j) {
      TurnAccount small;  // each is new, and has had nothing
      small.group = &crowd;
      if (!queue.GoesFirst(&small)) continue;
      queue.Charge(&small, milliseconds(5));
      small_had += milliseconds(5);
    }
  }
  // Together they want two thirds of all time.
  EXPECT_GT(small_had, kTurns * kSlice / 2);
  EXPECT_LE(small_had, kTurns * kSlice + 2 * TurnQueue::kMostDebt);
}

TEST(TurnQueueTest, NobodyGoesBeforeAHigherPriority) {
  TurnQueue queue(1);
  TurnGroup high(1, 1), low(1, 0);
  Busy hogs(&queue, 2, &high);
  Busy others(&queue, 2, &low);
  hogs.TakeTurns(10);
  TurnAccount small, important;
  small.group = &low;
  important.group = &high;
  EXPECT_FALSE(queue.GoesFirst(&small));
  EXPECT_TRUE(queue.GoesFirst(&important));
}

TEST(TurnQueueTest, WhoIsTakenOutIsNotNext) {
  TurnQueue queue(1);
  TurnAccount a, b;
  TurnWaiter first{&a}, second{&b};
  queue.Add(&first, {});
  queue.Add(&second, {});
  EXPECT_EQ(queue.size(), 2);
  EXPECT_EQ(queue.Waiters().size(), 2);
  queue.Remove(&first);
  EXPECT_EQ(queue.TakeNext({}), &second);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.TakeNext({}), nullptr);
}

}  // namespace
}  // namespace chx::server
