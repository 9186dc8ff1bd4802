// Runs of a session that was written and read again go on where they were, and only such.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include "base/sanitizers.h"
#include "server/runs/runs.h"
#include "tests/session/session_fixture.h"
#include "tests/state/snapshots.h"

namespace chx::server {
namespace {

using testing::HasSubstr;

constexpr std::chrono::milliseconds kNow(0);
constexpr std::chrono::seconds kLong(60);
constexpr int64_t kRows = 48;
constexpr int64_t kEvaluated = 500;
constexpr int64_t kSteps = 60;

RunsOptions Survives() {
  RunsOptions options;
  options.snapshot = [](const Session* /*session*/) {};
  return options;
}

class RunStateTest : public SessionTest {
 protected:
  RunStateTest() : seed_(std::random_device()()), random_(seed_) {}
  ~RunStateTest() override {
    if (HasFailure()) std::cerr << "seed " << seed_ << "\n";
  }

  // Program 1 has array 2 follow the minibatch's sum at a rate that varies, program 2 gives the
  // distance of a row to it.
  void Prepare(const std::string& subtract = "subtract") {
    BeginWithNothing();
    std::vector<float> rows(kRows);
    std::mt19937 random(7);
    for (float& row : rows) row = std::normal_distribution<float>()(random);
    Upload(1, rows, {kRows, 1});
    Upload(2, {0}, {});
    Upload(8, std::vector<float>(kEvaluated, 1), {kEvaluated, 1});
    Record(1, 4, 3,
           {OpByDefault("sum", {A(3)}, {4}), OpByDefault(subtract, {A(4), A(2)}, {5}),
            OpByDefault("multiply", {A(5), S(0.5)}, {6}), Op("add_", {A(2), A(6)}, {}),
            OpByDefault("copy", {A(2)}, {7}), ReleaseOf({4, 5, 6})},
           7);
    Record(
        2, 1, 3,
        {OpByDefault("sum", {A(3)}, {4}), OpByDefault(subtract, {A(4), A(2)}, {7}), ReleaseOf({4})},
        7);
  }
  void Record(uint64_t number, int64_t rows, Handle argument, std::vector<Command> commands,
              Handle output) {
    Upload(argument, std::vector<float>(static_cast<size_t>(rows)), {rows, 1});
    command::EndProgram end;
    end.request_id = 9;
    end.program = number;
    end.outputs = {output};
    SessionTest::Run({command::BeginProgram{number, {argument}}});
    SessionTest::Run(std::move(commands));
    SessionTest::Run({end, ReleaseOf({argument, output})});
    ASSERT_TRUE(output_.errors.empty()) << output_.errors[0].error->status;
    ASSERT_EQ(output_.values.back().error, nullptr) << output_.values.back().error->status;
    output_.Clear();
  }
  static RunSpec Spec() {
    RunSpec spec;
    spec.name = "run";
    spec.attempt = 5;
    spec.step = {1, {1}, 4, {{"value", 0}}};
    spec.steps = kSteps;
    spec.log_every = 7;
    spec.shuffle = 3;
    spec.evaluation = RunCalls{2, {8}, 1, {{"distance", 0}}};
    spec.evaluate_every = 5;
    spec.rules = {{RunRule::Kind::kNan, false, 0, 0, 0},
                  {RunRule::Kind::kNoImprovement, true, 0, 0, 20}};
    return spec;
  }
  void BeginWithNothing() {
    Reset(SessionLimits());
    shared_.reset(session_.get(), [](Session* /*session*/) {});
  }
  static std::vector<RunEvent> Events(server::Run* run) {
    for (;;) {
      const RunView view = run->Watch(0, kNow);
      if (view.state == RunState::kEnded) return view.events;
      run->Watch(view.next, kLong);
    }
  }
  // What a run has come to, and the array that it has changed.
  std::string Found(server::Run* run) {
    std::string found;
    for (const RunEvent& event : Events(run)) {
      if (event.kind == RunEventKind::kWarning) continue;
      found += std::to_string(static_cast<int>(event.kind)) + " " + std::to_string(event.step) +
               " " + event.reason + " " + event.text;
      for (double value : event.values) found += " " + std::to_string(Bits(value));
      found += "\n";
    }
    return found + std::to_string(Bits(Fetch(2)[0]));
  }
  static int64_t Bits(double value) {
    int64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
  }

  // A run in the middle, as a snapshot has it.
  std::string MidwaySnapshot() {
    Prepare();
    std::string data;
    RunsOptions options;
    options.snapshot = [&](const Session* session) {
      if (data.empty()) data = SnapshotOf(session_.get());
      EXPECT_EQ(session, session_.get());
    };
    Runs runs(std::move(options));
    RunSpec spec = Spec();
    spec.snapshot_every = kSteps / 3 + 1;
    const auto run = *runs.Start(shared_, {}, spec);
    Events(run.get());
    return data;
  }
  // Reads it into a session of its own. Its runs, damaged.
  std::vector<RunRecord> Read(const std::string& data) {
    BeginWithNothing();
    std::vector<RunRecord> records;
    CHECK_OK(server::Restore(data, session_.get(), &records));
    return records;
  }
  // How the only run ends where it cannot go on.
  std::string WhyNot(std::vector<RunRecord> records) {
    (void)Runs::Restore(session_.get(), std::move(records));
    Runs runs(Survives());
    runs.Serve();
    runs.Resume(shared_, absl::OkStatus(), {});
    const auto all = Runs::List(session_.get());
    if (all.empty()) return "left out";
    const RunEvent last = Events(all[0].get()).back();
    return last.reason + ": " + last.text;
  }

  const uint32_t seed_;
  std::mt19937 random_;
  std::shared_ptr<Session> shared_;  // the fixture's session; runs end before it does
};

TEST_F(RunStateTest, RecordsAreReadAsTheyWereWritten) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  RunRecord record;
  record.spec = Spec();
  record.spec.done = 1;
  record.spec.first = {8};
  record.spec.values = 9;
  record.spec.time_limit = 10.5;
  record.spec.snapshot_every = 11;
  record.spec.snapshot_seconds = 11.25;
  record.spec.rows = 26;
  record.spec.marks = 27;
  record.spec.equal_weights = true;
  record.spec.step.rest = 28;
  record.spec.rules[1].bound = 12.5;
  record.steps_per_epoch = 13;
  record.view = {RunState::kPaused,
                 14,
                 15,
                 16,
                 {{1, RunEventKind::kLog, 2, 3.5, {nan, 4}, "", "t"},
                  {9, RunEventKind::kEnded, 3, 4, {}, "rule", ""}}};
  record.order = RunOrder::kStop;
  record.position = {17,   {{18, nan}, 19}, {{true, 20, 21}, {}}, true, 22, {{23}, 24}, 25, "rule",
                     "why"};
  state::Run message;
  ToMessage(record, &message);
  state::Run parsed;
  ASSERT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
  const RunRecord read = RecordFrom(parsed);
  state::Run again;
  ToMessage(read, &again);
  EXPECT_EQ(again.SerializeAsString(), message.SerializeAsString());
  EXPECT_EQ(read.spec.attempt, 5u);
  EXPECT_EQ(read.spec.shuffle, record.spec.shuffle);
  EXPECT_EQ(read.spec.step.data, record.spec.step.data);
  EXPECT_EQ(read.spec.evaluation->metrics[0].name, "distance");
  EXPECT_EQ(read.spec.snapshot_every, 11);
  EXPECT_EQ(read.spec.snapshot_seconds, 11.25);
  EXPECT_EQ(read.spec.rows, 26u);
  EXPECT_EQ(read.spec.marks, 27u);
  EXPECT_TRUE(read.spec.equal_weights);
  EXPECT_EQ(read.spec.step.rest, 28u);
  EXPECT_EQ(read.spec.evaluation->rest, 0u);
  EXPECT_EQ(read.spec.rules[1].bound, 12.5);
  EXPECT_EQ(read.spec.rules[1].patience, 20);
  EXPECT_EQ(read.view.events[1].number, 9u);
  EXPECT_EQ(read.order, RunOrder::kStop);
  EXPECT_EQ(read.position.step, 17);
  EXPECT_EQ(read.position.log.sums[0], 18);
  EXPECT_EQ(read.position.best[0].since, 21);
  EXPECT_EQ(read.position.evaluation_row, 22);
  EXPECT_EQ(read.position.evaluation.count, 24);
  EXPECT_EQ(read.position.seconds, 25);
  EXPECT_EQ(read.position.text, "why");
}

// Snapshots at any moment, of which many are in an evaluation: from each the run goes on as if
// nothing had been.
TEST_F(RunStateTest, GoesOnFromAnyMoment) {
  Prepare();
  std::string want;
  std::vector<std::string> snapshots;
  {
    Mutex mutex;
    const auto keep = [&] {
      std::string snapshot = SnapshotOf(session_.get());
      MutexLock lock(&mutex);
      snapshots.push_back(std::move(snapshot));
    };
    RunsOptions options;
    options.snapshot = [&](const Session* /*session*/) { keep(); };  // before an evaluation
    Runs runs(std::move(options));
    RunSpec spec = Spec();
    spec.snapshot_every = 15;
    const auto run = *runs.Start(shared_, {}, spec);
    while (run->Watch(0, kNow).state != RunState::kEnded) {
      keep();
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 10000));
    }
    want = Found(run.get());
  }
  // There are as many as the machine is slow.
  constexpr int kOfEach = kSanitized ? 8 : 20;
  std::shuffle(snapshots.begin(), snapshots.end(), random_);
  int in_evaluation = 0;
  int in_steps = 0;
  for (const std::string& snapshot : snapshots) {
    std::vector<RunRecord> records = Read(snapshot);
    ASSERT_EQ(records.size(), 1u);
    if (records[0].view.state == RunState::kEnded) continue;
    const RunPosition position = records[0].position;
    int& of_its_kind = position.evaluates ? in_evaluation : in_steps;
    if (of_its_kind == kOfEach) continue;
    of_its_kind += 1;
    ASSERT_TRUE(Runs::Restore(session_.get(), std::move(records)).ok());
    const auto run = Runs::List(session_.get())[0];
    EXPECT_EQ(run->Watch(0, kNow).state, RunState::kSuspended);
    Runs runs(Survives());
    runs.Resume(shared_, absl::OkStatus(), {});
    EXPECT_EQ(run->Watch(0, kNow).state, RunState::kSuspended) << "before the daemon serves";
    if (random_() % 2 == 0) session_->BeginAnew();  // another client
    const bool anew = !session_->Holds(2);
    runs.Serve();
    if (anew) {
      EXPECT_EQ(Events(run.get()).back().reason, "done");
    } else {
      EXPECT_EQ(Found(run.get()), want) << "from step " << position.step;
    }
    // Nothing of it is left.
    session_->BeginAnew();
    SessionTest::Run({});
    EXPECT_EQ(session_->stats().handles, 0);
  }
  EXPECT_GT(in_evaluation, 0);
  EXPECT_GT(in_steps + in_evaluation, 3);
}

TEST_F(RunStateTest, WhatCannotGoOnEnds) {
  const std::string data = MidwaySnapshot();
  Read(data);
  const auto handles = [this] {
    SessionTest::Run({});
    return session_->stats().handles;
  };
  // Without its run the session has what its client has.
  CHECK_OK(Runs::Restore(session_.get(), {}));
  const int64_t without = handles();
  EXPECT_EQ(without, 3 + 2);  // and what the programs hold
  const std::vector<std::function<void(RunRecord*)>> damages = {
      [](RunRecord* r) { r->spec.steps = 0; },
      [](RunRecord* r) { r->spec.steps = 5; },
      [](RunRecord* r) { r->spec.step.program = 1; },
      [](RunRecord* r) { r->spec.step.program = kFirstRunHandle + 1000; },
      [](RunRecord* r) { r->spec.step.data = {1}; },
      [](RunRecord* r) { r->spec.step.data = {kFirstRunHandle + 1000}; },
      [](RunRecord* r) { r->spec.step.data.clear(); },
      [](RunRecord* r) { r->spec.step.batch_size = 5; },
      [](RunRecord* r) { r->spec.step.batch_size = std::numeric_limits<int64_t>::max(); },
      [](RunRecord* r) { r->spec.step.metrics[0].output = 1; },
      [](RunRecord* r) { r->spec.evaluation->data = r->spec.step.data; },
      [](RunRecord* r) { r->spec.evaluation->program = r->spec.step.program; },
      [](RunRecord* r) { r->spec.values = r->spec.step.data[0]; },
      [](RunRecord* r) { r->spec.values = 1; },
      [](RunRecord* r) { r->spec.rows = 1; },
      [](RunRecord* r) { r->spec.marks = 1; },
      [](RunRecord* r) { r->spec.marks = r->spec.step.data[0]; },
      [](RunRecord* r) { r->spec.marks = kFirstRunHandle + 1000; },
      [](RunRecord* r) {
        r->spec.shuffle.reset();
        r->spec.rows = kFirstRunHandle + 1000;
      },
      [](RunRecord* r) { r->spec.step.rest = 1; },
      [](RunRecord* r) { r->spec.step.rest = r->spec.step.program; },
      [](RunRecord* r) { r->spec.step.rest = kFirstRunHandle + 1000; },
      [](RunRecord* r) { r->spec.evaluation->rest = r->spec.evaluation->program; },
      [](RunRecord* r) { r->spec.rules[0].metric = 1; },
      [](RunRecord* r) { r->spec.snapshot_every = -1; },
      [](RunRecord* r) { r->spec.snapshot_seconds = -1; },
      [](RunRecord* r) { r->spec.snapshot_seconds = std::numeric_limits<double>::infinity(); },
      [](RunRecord* r) { r->spec.first = {1}; },
      [](RunRecord* r) { r->steps_per_epoch = 1; },
      [](RunRecord* r) { r->order = RunOrder::kEndWithDaemon; },
      [](RunRecord* r) { r->position.step = -1; },
      [](RunRecord* r) { r->position.step = kSteps + 1; },
      [](RunRecord* r) {
        r->position.log = {{1, 2}, 1};
      },
      [](RunRecord* r) {
        r->position.log = {{1}, 0};
      },
      [](RunRecord* r) { r->position.log.count = -1; },
      [](RunRecord* r) {
        r->position.log = {{1}, kSteps + 1};
      },
      [](RunRecord* r) { r->position.best.resize(1); },
      [](RunRecord* r) {
        r->position.best = {{}, {true, 0, std::numeric_limits<int64_t>::max()}};
      },
      [](RunRecord* r) { r->position.seconds = -1; },
      [](RunRecord* r) { r->position.seconds = std::numeric_limits<double>::quiet_NaN(); },
      [](RunRecord* r) { r->position.reason = "\xff"; },
      [](RunRecord* r) {
        r->position.evaluates = true;
        r->position.evaluation_row = kEvaluated;
        r->position.evaluation = {{1}, kEvaluated};
      },
      [](RunRecord* r) {
        r->position.evaluates = true;
        r->position.evaluation_row = -1;
      },
      [](RunRecord* r) {
        r->position.evaluates = true;
        r->position.evaluation_row = std::numeric_limits<int64_t>::max();
        r->position.evaluation = {{1}, std::numeric_limits<int64_t>::max()};
      },
      [](RunRecord* r) {
        r->position.evaluates = true;
        r->position.evaluation_row = 2;
        r->position.evaluation = {{1}, 1};
      },
      [](RunRecord* r) {
        r->position.evaluates = false;
        r->position.evaluation_row = 1;
      },
      [](RunRecord* r) {
        r->spec.evaluation.reset();
        r->spec.rules.clear();
        r->position.best.clear();
        r->position.evaluates = true;
      },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    std::vector<RunRecord> records = Read(data);
    ASSERT_EQ(records.size(), 1u);
    damages[i](&records[0]);
    const std::string why = WhyNot(std::move(records));
    if (why != "left out") {
      EXPECT_THAT(why, HasSubstr("daemon: the daemon was restarted, and the run cannot go on: "))
          << i;
    }
    // The session is otherwise what it was.
    EXPECT_EQ(Fetch(1).size(), static_cast<size_t>(kRows)) << i;
    EXPECT_EQ(session_->runs().active, 0) << i;
    session_->BeginAnew();
    EXPECT_LE(handles(), 3) << i;  // what two claim, neither gives back
  }
  // As it is, it goes on; but not twice.
  std::vector<RunRecord> records = Read(data);
  records.push_back(records[0]);
  records[1].spec.name = "another";
  EXPECT_EQ(WhyNot(records), "done: ");
  EXPECT_THAT(Events(Runs::List(session_.get())[1].get()).back().text, HasSubstr("of their own"));
}

// An array that has become an error, and no memory for the run itself.
TEST_F(RunStateTest, WhatIsMissingIsSaid) {
  const std::string data = MidwaySnapshot();
  std::vector<RunRecord> records = Read(data);
  session_->Inspect([&](SessionState& state) {
    auto error = std::make_shared<RootError>();
    error->status = absl::InternalError("its value was lost");
    state.handles.Poison(records[0].spec.step.data[0], error);
  });
  EXPECT_THAT(WhyNot(records), HasSubstr("cannot go on: its value was lost"));
  Read(data);
  CHECK_OK(Runs::Restore(session_.get(), {records}));
  MemoryCharge rest;
  const MemoryAccountPtr& account = session_->account();
  rest = *MemoryCharge::Of(account, account->limit() - account->used() - kRunBytes / 2);
  Runs runs(Survives());
  runs.Serve();
  runs.Resume(shared_, absl::OkStatus(), {});
  const RunEvent last = Events(Runs::List(session_.get())[0].get()).back();
  EXPECT_EQ(last.reason, "daemon");
  EXPECT_THAT(last.text, HasSubstr("memory"));
}

// Programs name operators by numbers that are others there: what was `subtract` is `add`.
TEST_F(RunStateTest, WorksWithOperatorsOfAnotherDaemon) {
  Prepare("add");
  Runs runs(Survives());
  const std::string want = Found(runs.Start(shared_, {}, Spec())->get());
  Prepare();
  const std::string data = SnapshotOf(session_.get());
  BeginWithNothing();
  CHECK_OK(server::Restore(data, session_.get(), nullptr, [](state::Head* head) {
    head->mutable_ops()->SwapElements(WireId("subtract") - 1, WireId("add") - 1);
  }));
  session_->Inspect([](SessionState& state) { EXPECT_FALSE(state.op_ids.empty()); });
  // The client's numbers are those of a daemon before, and its programs' are this daemon's.
  const std::string again = SnapshotOf(session_.get());
  EXPECT_EQ(Found(runs.Start(shared_, {}, Spec())->get()), want);
  BeginWithNothing();
  CHECK_OK(server::Restore(again, session_.get()));
  EXPECT_EQ(Found(runs.Start(shared_, {}, Spec())->get()), want);
}

// It restores a session while it ends.
TEST_F(RunStateTest, ADaemonThatEndsAtOnceKeepsIt) {
  const std::string data = MidwaySnapshot();
  std::vector<RunRecord> records = Read(data);
  CHECK_OK(Runs::Restore(session_.get(), std::move(records)));
  Runs runs(Survives());
  runs.Serve();
  runs.EndWithin(kLong);
  runs.Resume(shared_, absl::OkStatus(), {});  // too late
  const auto run = Runs::List(session_.get())[0];
  EXPECT_EQ(run->Watch(0, kNow).state, RunState::kSuspended);
  // And the next one goes on with it.
  const std::string later = SnapshotOf(session_.get());
  EXPECT_EQ(WhyNot(Read(later)), "done: ");
}

}  // namespace
}  // namespace chx::server
