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
