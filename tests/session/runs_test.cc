// Runs beside the commands of clients, on a session that passes from one to the next.
#include "server/runs/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kNow(0);
constexpr std::chrono::seconds kLong(60);

class RunsTest : public SessionTest {
 protected:
  // Program 1 adds the minibatch's sum to array 2, and gives what that is then; in a mode of the
  // client's. The data are ones, in rows of 2.
  void Prepare() {
    Upload(1, {1, 1, 1, 1, 1, 1}, {3, 2});
    Upload(2, {0}, {});
    Upload(3, {1, 1}, {1, 2});
    command::ApplyOp add = OpByDefault("add_", {A(2), A(4)}, {});
    add.mode = 1;
    command::EndProgram end;
    end.request_id = 9;
    end.program = 1;
    end.outputs = {5};
    SessionTest::Run({command::DefineMode{1, false, {}}, command::BeginProgram{1, {3}},
                      OpByDefault("sum", {A(3)}, {4}), add, OpByDefault("copy", {A(2)}, {5}), end,
                      command::SaveArrays{10, "total", "", {2}}});
    ASSERT_TRUE(output_.errors.empty()) << output_.errors[0].error->status;
    SessionTest::Run({ReleaseOf({4, 5})});
  }

  RunSpec Spec(const std::string& name) {
    RunSpec spec;
    spec.name = name;
    spec.step.program = 1;
    spec.step.data = {1};
    spec.step.batch_size = 1;
    spec.step.metrics = {{"total", 0}};
    spec.steps = int64_t{1} << 40;
    spec.log_every = 100;
    spec.shuffle = 1;
    return spec;
  }
  std::shared_ptr<server::Run> Start(const std::string& name) {
    // The runs end before the session does.
    const std::shared_ptr<Session> session(session_.get(), [](Session*) {});
    auto run = runs_.Start(session, {}, Spec(name));
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : nullptr;
  }
  static void AwaitSteps(server::Run* run, int64_t more) {
    const int64_t step = run->Watch(~uint64_t{0}, kNow).step + more;
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (run->Watch(~uint64_t{0}, kNow).step < step) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  static RunEvent End(server::Run* run) {
    uint64_t from = 0;
    for (;;) {
      const RunView view = run->Watch(from, kLong);
      if (view.events.empty()) return {};
      if (view.events.back().kind == RunEventKind::kEnded) return view.events.back();
      from = view.events.back().number + 1;
    }
  }

  Runs runs_;
};

TEST_F(RunsTest, GoBesideCommandsAndBeginningsAnew) {
  Prepare();
  const auto run = Start("run");
  ASSERT_NE(run, nullptr);
  for (int client = 0; client < 20; ++client) {
    AwaitSteps(run.get(), 3);
    // Between two steps: half of a sum is never seen.
    const float total = client == 0 ? Fetch(2)[0] : 0;
    EXPECT_EQ(total, 2 * static_cast<float>(static_cast<int>(total / 2)));
    session_->BeginAnew();  // frees the program, the data and the mode
    Upload(7, {1, 2}, {2});
    // While something is recorded the run waits.
    SessionTest::Run({command::BeginProgram{1, {7}}});
    const int64_t step = run->Watch(~uint64_t{0}, kNow).step;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_LE(run->Watch(~uint64_t{0}, kNow).step, step + 1);
    command::EndProgram end;
    end.request_id = 9;
    end.program = 1;
    end.outputs = {8};
    SessionTest::Run({Op("add", {A(7), S(1.0)}, {8}), end});
    EXPECT_EQ(output_.values.back().error, nullptr);
    EXPECT_THAT(Fetch(8), testing::ElementsAre(2, 3));
  }
  EXPECT_TRUE(output_.errors.empty());
  run->Ask(RunOrder::kStop);
  EXPECT_EQ(End(run.get()).reason, "stopped");
  // All steps were made, and nothing of the run is left.
  command::QuerySaved query;
  query.request_id = 11;
  query.name = "total";
  command::LoadSaved load;
  load.request_id = 12;
  load.name = "total";
  load.version = 1;
  load.results = {50};
  SessionTest::Run({query, load});
  const int64_t steps = run->Watch(~uint64_t{0}, kNow).step;
  EXPECT_EQ(Fetch(50)[0], 2 + 2 * static_cast<float>(steps));
  session_->BeginAnew();
  SessionTest::Run({});
  EXPECT_EQ(session_->stats().handles, 0);
  EXPECT_EQ(session_->runs().active, 0);
  EXPECT_EQ(session_->runs().kept, 1);
}

TEST_F(RunsTest, SeveralShareTheSession) {
  Prepare();
  std::vector<std::shared_ptr<server::Run>> all;
  all.reserve(Runs::kMaxActive);
  for (int i = 0; i < Runs::kMaxActive; ++i) all.push_back(Start("run" + std::to_string(i)));
  const std::shared_ptr<Session> session(session_.get(), [](Session*) {});
  EXPECT_FALSE(runs_.Start(session, {}, Spec("one more")).ok());
  for (size_t i = 0; i < all.size(); i += 2) all[i]->Ask(RunOrder::kPause);
  for (size_t i = 1; i < all.size(); i += 2) AwaitSteps(all[i].get(), 5);
  for (const auto& run : all) run->Ask(RunOrder::kRun);
  for (const auto& run : all) AwaitSteps(run.get(), 5);
  session_->stop().EndSession();
  for (const auto& run : all) EXPECT_EQ(End(run.get()).reason, "session");
}

TEST_F(RunsTest, EndWithTheDaemon) {
  Prepare();
  const auto running = Start("running");
  const auto paused = Start("paused");
  paused->Ask(RunOrder::kPause);
  AwaitSteps(running.get(), 5);
  runs_.EndWithin(kLong);
  EXPECT_EQ(End(running.get()).reason, "daemon");
  EXPECT_EQ(End(paused.get()).reason, "daemon");
  const std::shared_ptr<Session> session(session_.get(), [](Session*) {});
  EXPECT_TRUE(absl::IsUnavailable(runs_.Start(session, {}, Spec("late")).status()));
}

// Where there is a next daemon, nothing of them ends.
TEST_F(RunsTest, AreSuspendedForTheNextDaemon) {
  RunsOptions options;
  options.snapshot = [](const Session* /*session*/) {};
  Runs runs(std::move(options));
  Prepare();
  const std::shared_ptr<Session> session(session_.get(), [](Session*) {});
  const auto running = *runs.Start(session, {}, Spec("running"));
  const auto paused = *runs.Start(session, {}, Spec("paused"));
  paused->Ask(RunOrder::kPause);
  AwaitSteps(running.get(), 5);
  while (!paused->paused()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  runs.EndWithin(kLong);
  EXPECT_EQ(running->Watch(0, kNow).state, RunState::kSuspended);
  EXPECT_EQ(paused->Watch(0, kNow).state, RunState::kPaused);
  EXPECT_EQ(session_->runs().active, 0);
  const int64_t steps =
      running->Watch(0, kNow).step + paused->Watch(0, kNow).step;  // all in the array
  EXPECT_EQ(Fetch(2)[0], 2 + 2 * static_cast<float>(steps));
  session_->BeginAnew();
  SessionTest::Run({});
  EXPECT_GT(session_->stats().handles, 0) << "for a snapshot";
}

TEST_F(RunsTest, AskForSnapshots) {
  std::atomic<int> asked{0};
  RunsOptions options;
  options.snapshot = [&](const Session* session) { asked += session == session_.get() ? 1 : 0; };
  Runs runs(std::move(options));
  Prepare();
  const std::shared_ptr<Session> session(session_.get(), [](Session*) {});
  RunSpec spec = Spec("run");
  spec.steps = 25;
  spec.snapshot_every = 10;
  EXPECT_EQ(End((*runs.Start(session, {}, spec)).get()).reason, "done");
  EXPECT_EQ(asked, 2);
  spec.name = "nowhere";
  for (const double seconds : {0.0, 1.0}) {
    const absl::Status status = runs_.Start(session, {}, spec).status();
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--state-dir")) << seconds;
    spec.snapshot_every = 0;
    spec.snapshot_seconds = 1;
  }
}

// By time, also beside those by steps, and no more of them than the time has room for.
TEST_F(RunsTest, AskForSnapshotsByTime) {
  constexpr double kSeconds = 0.02;
  std::atomic<int> asked{0};
  RunsOptions options;
  options.snapshot = [&](const Session* /*session*/) { ++asked; };
  Runs runs(std::move(options));
  Prepare();
  const std::shared_ptr<Session> session(session_.get(), [](Session*) {});
  RunSpec spec = Spec("run");
  spec.steps = int64_t{1} << 40;
  spec.log_every = spec.steps;
  spec.snapshot_every = spec.steps;
  spec.snapshot_seconds = kSeconds;
  const auto began = std::chrono::steady_clock::now();
  const auto seconds = [began] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  const auto run = *runs.Start(session, {}, spec);
  while (asked < 5 && seconds() < 60) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const int count = asked;
  EXPECT_GE(count, 5);
  EXPECT_LE(count * kSeconds, seconds());
  // Nothing changes while it is paused.
  run->Ask(RunOrder::kPause);
  while (run->Watch(0, std::chrono::milliseconds(0)).state != RunState::kPaused) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int paused = asked;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(asked, paused);
  run->Ask(RunOrder::kStop);
  EXPECT_EQ(End(run.get()).reason, "stopped");
}

TEST_F(RunsTest, ARecordOfNoneIsLeftOut) {
  RunRecord record;
  record.spec.name = "run";
  record.spec.steps = 1;
  record.view.state = RunState::kEnded;
  record.view.next = 2;
  record.view.events.resize(2);
  record.view.events[1].number = 1;
  EXPECT_TRUE(Runs::Restore(session_.get(), {record}).ok());
  EXPECT_EQ(session_->runs().kept, 1);
  std::vector<RunRecord> bad(11, record);
  bad[0].spec.name = "a b";
  bad[1].spec.steps = 0;
  bad[2].steps_per_epoch = 0;
  bad[3].view.next = 1;
  bad[4].view.events[1].number = 0;
  bad[5].view.events[0].kind = static_cast<RunEventKind>(7);
  bad[6].view.events[1].reason = "\xff";
  bad[7].view.next = uint64_t{1} << 63;
  bad[8].view.dropped = ~uint64_t{0};
  bad[9].view.state = static_cast<RunState>(4);
  bad[10].view.state = RunState::kSuspended;
  RunRecord good = record;
  good.spec.name = "good";
  for (const RunRecord& each : bad) {
    EXPECT_FALSE(Runs::Restore(session_.get(), {each, good, record, record}).ok());
    EXPECT_EQ(Runs::List(session_.get()).size(), 2u);
  }
  EXPECT_FALSE(Runs::Restore(session_.get(), std::vector<RunRecord>(65, record)).ok());
  EXPECT_EQ(Runs::List(session_.get()).size(), 1u);
}

}  // namespace
}  // namespace chx::server
