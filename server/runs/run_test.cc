#include "server/runs/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kNow(0);

RunSpec Spec() {
  RunSpec spec;
  spec.name = "run";
  spec.steps = 1 << 20;
  spec.step.metrics = {{"loss", 0}};
  return spec;
}

TEST(EpochOrderTest, IsAPermutationOfItsOwnInEachEpoch) {
  for (int64_t rows : {1, 2, 3, 1000}) {
    std::set<std::vector<int64_t>> orders;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<int64_t> order = EpochOrder(5, epoch, rows);
      orders.insert(order);
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < rows; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
    }
    if (rows == 1000) {
      EXPECT_EQ(orders.size(), 3u);
    }
  }
}

TEST(RunTest, OlderEventsMakeRoom) {
  auto account = std::make_shared<MemoryAccount>(int64_t{1} << 30);
  server::Run run(Spec(), account, 1);
  run.Note(RunEventKind::kStarted, {});
  constexpr int kLogs = 100000;
  for (int i = 0; i < kLogs; ++i) {
    run.position().step = i;
    run.ShowStep();
    run.Note(RunEventKind::kLog, {1.0 * i});
  }
  run.Note(RunEventKind::kEnded, {}, "done");
  std::vector<RunEvent> all;
  uint64_t from = 0;
  for (;;) {
    const RunView view = run.Watch(from, kNow);
    if (view.events.empty()) break;
    all.insert(all.end(), view.events.begin(), view.events.end());
    from = all.back().number + 1;
  }
  EXPECT_LE(all.size(), server::Run::kMaxEvents);
  EXPECT_GT(all.size(), server::Run::kMaxEvents / 4);
  EXPECT_EQ(all.front().kind, RunEventKind::kStarted);
  EXPECT_EQ(all.back().reason, "done");
  EXPECT_EQ(run.Watch(from, kNow).dropped + all.size(), kLogs + 2u);
  const std::vector<RunEvent> few = run.Sample(10).events;
  ASSERT_LE(few.size(), 12u);
  EXPECT_GT(few.size(), 8u);
  EXPECT_EQ(few.front().kind, RunEventKind::kStarted);
  EXPECT_EQ(few.back().kind, RunEventKind::kEnded);
  EXPECT_EQ(few[few.size() - 2].step, kLogs - 1);
  EXPECT_EQ(run.Sample(1).events.size(), 3u);
  for (size_t i = 1; i < all.size(); ++i) {
    ASSERT_LT(all[i - 1].number, all[i].number);
    if (all[i].kind == RunEventKind::kLog) {
      ASSERT_EQ(all[i].values[0], static_cast<double>(all[i].number - 1));
    }
  }
}

TEST(RunTest, EventsAreChargedAndGivenUpWithoutMemory) {
  auto account = std::make_shared<MemoryAccount>(int64_t{256} << 10);
  {
    server::Run run(Spec(), account, 1);
    run.Note(RunEventKind::kStarted, {});
    for (int i = 0; i < 20000; ++i) run.Note(RunEventKind::kLog, std::vector<double>(16));
    const RunView view = run.Watch(0, kNow);
    EXPECT_GT(view.dropped, 0u);
    EXPECT_EQ(view.events[0].kind, RunEventKind::kStarted);
    EXPECT_LE(account->used(), account->limit() + MemoryMeter::kChunk);
    EXPECT_GT(account->used(), 0);
  }
  EXPECT_EQ(account->used(), 0);
}

TEST(RunTest, IsSuspendedInTheNextDaemon) {
  auto account = std::make_shared<MemoryAccount>(int64_t{1} << 30);
  server::Run run(Spec(), account, 7);
  run.Note(RunEventKind::kStarted, {});
  for (size_t i = 0; i < 2 * server::Run::kMaxRecorded; ++i) run.Note(RunEventKind::kLog, {0.5});
  run.position().step = 9;
  run.position().seconds = 1000;
  run.ShowStep();
  run.Ask(RunOrder::kPause);
  server::Run later(run.Record(), account);
  const uint64_t last = 2 * server::Run::kMaxRecorded + 1;
  RunView view = later.Watch(0, kNow);
  EXPECT_EQ(view.state, RunState::kSuspended);
  EXPECT_EQ(view.step, 9);
  EXPECT_EQ(view.next, last);
  EXPECT_EQ(view.dropped, 0u);
  EXPECT_EQ(later.position().step, 9);
  EXPECT_GE(later.seconds(), 1000);
  EXPECT_EQ(later.order(), RunOrder::kPause);
  EXPECT_EQ(later.steps_per_epoch(), 7);
  later.Continue();
  EXPECT_EQ(later.Watch(0, kNow).state, RunState::kRunning);
  // One that has ended keeps the first event and the newest.
  later.Note(RunEventKind::kEnded, {}, "stopped");
  server::Run again(later.Record(), account);
  view = again.Watch(0, kNow);
  EXPECT_EQ(view.state, RunState::kEnded);
  EXPECT_EQ(view.next, last + 1);
  EXPECT_EQ(view.events[0].kind, RunEventKind::kStarted);
  EXPECT_EQ(view.dropped, last + 1 - server::Run::kMaxRecorded);
}

TEST(RunTest, APausedOneIsPausedInTheNextDaemon) {
  auto account = std::make_shared<MemoryAccount>(int64_t{1} << 30);
  server::Run run(Spec(), account, 7);
  run.Note(RunEventKind::kPaused, {});
  run.Suspend();
  server::Run later(run.Record(), account);
  EXPECT_TRUE(later.suspended());
  EXPECT_TRUE(later.paused());
  EXPECT_EQ(later.Watch(0, kNow).state, RunState::kPaused);
}

TEST(RunTest, AnOrderToStopStays) {
  server::Run run(Spec(), std::make_shared<MemoryAccount>(int64_t{1} << 30), 1);
  run.Ask(RunOrder::kPause);
  EXPECT_EQ(run.order(), RunOrder::kPause);
  run.Ask(RunOrder::kRun);
  run.Ask(RunOrder::kStop);
  run.Ask(RunOrder::kRun);
  EXPECT_EQ(run.order(), RunOrder::kStop);
}

}  // namespace
}  // namespace chx::server
