// Runs of the C++ client: what the daemon makes of a program is what a loop of its calls does.
#include "client/run.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "client/autograd.h"
#include "client/optimizers.h"
#include "gmock/gmock.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::SizeIs;

using Training = Run;  // as a test has a Run of its own

constexpr int64_t kRows = 24;
constexpr int64_t kBatch = 4;
constexpr int64_t kPerEpoch = kRows / kBatch;

// A linear model with Adam, of which all is made anew from the same numbers.
struct Model {
  explicit Model(Session& session) : session(session) {
    x = Numbers({kRows, 3}, 1);
    t = Numbers({kRows, 1}, 2);
    w = Numbers({3, 1}, 3).RequireGrad();
    optimizer.alpha = 0.05;
    EXPECT_TRUE(optimizer.Setup({w}).ok());
  }

  Array Numbers(const Shape& shape, unsigned seed) const {
    std::vector<float> values;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      seed = seed * 1664525 + 1013904223;
      values.push_back(static_cast<float>(seed >> 8) / (1 << 24) - 0.5f);
    }
    return Array::FromHost(session, values.data(), shape, Dtype::kFloat32);
  }
  Array Rows(const Array& array, int64_t batch) const {
    std::vector<int64_t> rows(kBatch);
    std::iota(rows.begin(), rows.end(), batch % kPerEpoch * kBatch);
    return take(array, Array::FromHost(session, rows.data(), {kBatch}, Dtype::kInt64), 0);
  }
  Program Trace() {
    const auto step = [this](absl::Span<const Array> in) -> Program::Results {
      const Array loss = mean(square(matmul(in[0], w) - in[1]));
      CHX_RETURN_IF_ERROR(Backward(loss));
      CHX_RETURN_IF_ERROR(optimizer.Update());
      CHX_RETURN_IF_ERROR(optimizer.ClearGrads());
      return std::vector<Array>{loss, sum(w.AsGradStopped())};
    };
    absl::StatusOr<Program> program = Program::Trace(session, step, {Rows(x, 0), Rows(t, 0)});
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }
  Program TraceEvaluation() {
    const auto evaluate = [this](absl::Span<const Array> in) -> Program::Results {
      return std::vector<Array>{mean(square(matmul(in[0], w.AsGradStopped()) - in[1]))};
    };
    return Program::Trace(session, evaluate, {Rows(x, 0), Rows(t, 0)}).value();
  }
  RunStep Step(const Program& program) const { return {program, {x, t}, kBatch, {"loss"}}; }

  Session& session;
  Array x, t, w;
  optimizers::Adam optimizer;
};

class RunTest : public ClientTest {
 protected:
  static std::vector<float> Floats(const Array& array) {
    std::vector<float> values(static_cast<size_t>(array.spec().size()));
    const absl::Status read = array.CopyTo(values.data(), values.size() * sizeof(float));
    EXPECT_TRUE(read.ok()) << read;
    return values;
  }
  static std::vector<Training::Event> All(const Training& run) {
    std::vector<Training::Event> all;
    RunEvents events(run);
    for (Training::Event event;;) {
      const absl::StatusOr<bool> more = events.Next(&event);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) return all;
      all.push_back(event);
    }
  }
  template <typename T>
  static std::string MessageOf(const absl::StatusOr<T>& result) {
    return std::string(result.status().message());
  }
};

TEST_F(RunTest, IsALoopOfTheProgramsCallsToTheLastBit) {
  constexpr int64_t kEpochs = 3;
  Model looped(*session_);
  const Program loop = looped.Trace();
  const Program loop_evaluation = looped.TraceEvaluation();
  const auto schedule = [](optimizers::Adam* optimizer, int64_t step) {
    optimizer->alpha = 0.05 / static_cast<double>(1 + step);
    return absl::OkStatus();
  };
  std::vector<double> losses, evaluations;
  for (int64_t i = 0; i < kEpochs * kPerEpoch; ++i) {
    ASSERT_OK(schedule(&looped.optimizer, i));
    const Program::Results results = loop.Run({looped.Rows(looped.x, i), looped.Rows(looped.t, i)});
    ASSERT_OK(results.status());
    losses.push_back(Floats((*results)[0])[0]);
    if ((i + 1) % kPerEpoch != 0) continue;
    double total = 0;
    for (int64_t j = 0; j < kPerEpoch; ++j) {
      const Program::Results value =
          loop_evaluation.Run({looped.Rows(looped.x, j), looped.Rows(looped.t, j)});
      ASSERT_OK(value.status());
      total += Floats((*value)[0])[0];
    }
    evaluations.push_back(total / kPerEpoch);
  }

  Model model(*session_);
  RunOptions options;
  options.name = "fit";
  options.epochs = kEpochs;
  options.log_every = 1;
  options.evaluation = model.Step(model.TraceEvaluation());
  options.schedule = [&](int64_t step) { return schedule(&model.optimizer, step); };
  const absl::StatusOr<Training> run = StartRun(model.Step(model.Trace()), options);
  ASSERT_OK(run.status());
  EXPECT_EQ(run->steps(), kEpochs * kPerEpoch);
  EXPECT_EQ(run->steps_per_epoch(), kPerEpoch);

  const std::vector<Training::Event> events = All(*run);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front().kind, Training::Event::Kind::kStarted);
  EXPECT_EQ(events.back().kind, Training::Event::Kind::kEnded);
  EXPECT_EQ(events.back().reason, "done");
  EXPECT_EQ(events.back().epoch, kEpochs);
  const auto metrics = run->Metrics();
  ASSERT_OK(metrics.status());
  EXPECT_EQ(metrics->at("loss"), losses);
  EXPECT_EQ(metrics->at("evaluation/loss"), evaluations);
  EXPECT_THAT(metrics->at("evaluation/epoch"), ElementsAre(1, 2, 3));
  EXPECT_EQ(Floats(model.w), Floats(looped.w));
  EXPECT_EQ(model.optimizer.t(), looped.optimizer.t());
  EXPECT_EQ(run->state().value(), Training::State::kEnded);
  EXPECT_EQ(run->step().value(), kEpochs * kPerEpoch);
  EXPECT_EQ(run->Events()->size(), events.size());
}

// An array of its own numbers as data says which rows each step has had.
TEST_F(RunTest, ShufflesEachEpochAnew) {
  std::vector<double> numbers(kRows);
  std::iota(numbers.begin(), numbers.end(), 0);
  const Array x = Make(numbers);
  const auto first = [](absl::Span<const Array> in) -> Program::Results {
    return std::vector<Array>{sum(in[0]), sum(square(in[0]))};
  };
  const absl::StatusOr<Program> program =
      Program::Trace(*session_, first, {Make(Vector(kBatch, 1))});
  ASSERT_OK(program.status());
  std::vector<std::vector<double>> orders;
  for (const uint64_t seed : {7, 7, 8}) {
    RunOptions options;
    options.steps = 2 * kPerEpoch;
    options.shuffle = seed;
    options.log_every = 1;
    const absl::StatusOr<Training> run =
        StartRun({*program, {x}, kBatch, {"", "squares"}}, options);
    ASSERT_OK(run.status());
    orders.push_back(run->Metrics().value()["squares"]);
    while (orders.back().size() < 2 * kPerEpoch) {
      orders.back() = run->Metrics().value()["squares"];
    }
    EXPECT_EQ(run->Metrics()->count("loss"), 0u);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_NE(orders[0], orders[2]);
  const auto half = orders[0].begin() + kPerEpoch;
  EXPECT_NE(std::vector<double>(orders[0].begin(), half),
            std::vector<double>(half, orders[0].end()));
  const double all = 23.0 * 24 * 47 / 6;  // of all rows
  EXPECT_EQ(std::accumulate(orders[0].begin(), half, 0.0), all);
  EXPECT_EQ(std::accumulate(half, orders[0].end(), 0.0), all);
}

TEST_F(RunTest, IsPausedResumedStoppedAndFoundAgain) {
  Model model(*session_);
  RunOptions options;
  options.name = "long";
  options.steps = 1000000;
  const Program program = model.TraceEvaluation();
  absl::StatusOr<Training> run = StartRun(model.Step(program), options);
  ASSERT_OK(run.status());
  ASSERT_OK(run->Pause());
  EXPECT_EQ(run->state().value(), Training::State::kPaused);
  const int64_t step = run->step().value();
  EXPECT_EQ(run->Wait(std::chrono::milliseconds(20)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(run->step().value(), step);
  RunEvents events(*run);
  Training::Event event;
  while (event.kind != Training::Event::Kind::kPaused) ASSERT_TRUE(events.Next(&event).value());
  EXPECT_TRUE(absl::IsDeadlineExceeded(events.Next(&event, std::chrono::milliseconds(5)).status()));

  absl::StatusOr<Training> attached = AttachRun(*session_, "long");
  ASSERT_OK(attached.status());
  EXPECT_EQ(attached->steps(), 1000000);
  ASSERT_OK(attached->Resume());
  ASSERT_OK(attached->Stop());
  EXPECT_EQ(run->Wait()->reason, "stopped");
  while (events.Next(&event).value()) continue;
  EXPECT_EQ(event.reason, "stopped");
  EXPECT_FALSE(events.Next(&event).value());
  EXPECT_EQ(All(*attached).back().reason, "stopped");

  options.name = "short";
  options.steps = 3;
  ASSERT_OK(StartRun(model.Step(program), options).status());
  const std::vector<Training> listed = ListRuns(*session_).value();
  std::vector<std::string> names;
  names.reserve(listed.size());
  for (const Training& each : listed) names.push_back(each.name());
  EXPECT_THAT(names, ElementsAre("long", "short"));
  EXPECT_THAT(MessageOf(AttachRun(*session_, "other")), HasSubstr("other"));
}

TEST_F(RunTest, WeightsAreOfOneStep) {
  constexpr size_t kArrays = 100;  // more than the commands that are carried out at once
  std::vector<Array> all;
  for (size_t i = 0; i < kArrays; ++i) all.push_back(zeros(*session_, {3}));
  const Array x = ones(*session_, {8, 1});
  const auto step = [&all](absl::Span<const Array> in) -> Program::Results {
    for (Array& each : all) CHX_RETURN_IF_ERROR(each += sum(in[0]));
    return std::vector<Array>{sum(all[0])};
  };
  const absl::StatusOr<Program> program =
      Program::Trace(*session_, step, {take(x, zeros(*session_, {1}, Dtype::kInt64), 0)});
  ASSERT_OK(program.status());
  RunOptions options;
  options.steps = int64_t{1} << 40;
  options.log_every = options.steps;
  absl::StatusOr<Training> run = StartRun({*program, {x}, 1, {"sum"}}, options);
  ASSERT_OK(run.status());
  float last = 0;
  for (int i = 0; i < 200; ++i) {
    const absl::StatusOr<std::vector<Array>> weights = run->Weights(all);
    ASSERT_OK(weights.status());
    ASSERT_THAT(*weights, SizeIs(kArrays));
    const std::vector<Operand> parts(weights->begin(), weights->end());
    const std::vector<float> values = Floats(concatenate(parts, 0));
    const float first = values[0];
    ASSERT_THAT(values, AllOf(SizeIs(3 * kArrays), Each(first)));
    EXPECT_GE(first, last);
    last = first;
  }
  EXPECT_GT(last, 1);
  // Of other shapes; of none; of one that has no value.
  EXPECT_THAT(run->Weights({x, all[0]})->at(0).spec().shape.span(), ElementsAre(8, 1));
  EXPECT_THAT(*run->Weights({}), IsEmpty());
  EXPECT_FALSE(run->Weights({Array()}).ok());
  EXPECT_EQ(run->state().value(), Training::State::kRunning);
  ASSERT_OK(run->Stop());
  EXPECT_EQ(Floats(run->Weights(all)->at(99))[0], Floats(all[0])[0]);
}

TEST_F(RunTest, EndsByRulesAndByErrors) {
  Model model(*session_);
  RunOptions options;
  options.epochs = 1000;
  options.evaluation = model.Step(model.TraceEvaluation());
  options.stop = {StopRule::Nan("loss"), StopRule::Below("evaluation/loss", 1e9)};
  absl::StatusOr<Training> run = StartRun(model.Step(model.Trace()), options);
  ASSERT_OK(run.status());
  EXPECT_EQ(run->Wait()->reason, "rule");
  EXPECT_EQ(run->step().value(), kPerEpoch);
  EXPECT_THAT(*run->Metrics(), Contains(Key("evaluation/loss")));

  // Indices beyond the table, from the second minibatch on.
  const Array table = Make({1, 2, 3});
  std::vector<int64_t> numbers(kRows, 0);
  numbers.back() = 100;
  const Array data = Array::FromHost(*session_, numbers.data(), {kRows}, Dtype::kInt64);
  const auto lookup = [&](absl::Span<const Array> in) -> Program::Results {
    return std::vector<Array>{sum(take(table, in[0], 0))};
  };
  const std::vector<int64_t> zeros(kBatch, 0);
  const absl::StatusOr<Program> program = Program::Trace(
      *session_, lookup, {Array::FromHost(*session_, zeros.data(), {kBatch}, Dtype::kInt64)});
  ASSERT_OK(program.status());
  options = RunOptions();
  options.epochs = 1;
  run = StartRun({*program, {data}, kBatch, {"sum"}}, options);
  ASSERT_OK(run.status());
  const absl::StatusOr<Training::Event> last = run->Wait();
  EXPECT_THAT(MessageOf(last), HasSubstr("run 'run': "));
  EXPECT_EQ(All(*run).back().reason, "error");
}

TEST_F(RunTest, WrongOptionsAreSaidBeforeItStarts) {
  Model model(*session_);
  const Program program = model.Trace();
  const RunStep step = model.Step(program);
  const auto start = [&](const RunStep& with, void (*change)(RunOptions*)) {
    RunOptions options;
    options.epochs = 1;
    change(&options);
    return MessageOf(StartRun(with, options));
  };
  const auto none = [](RunOptions* /*options*/) {};
  EXPECT_THAT(start(step, [](RunOptions* o) { o->epochs = 0; }), HasSubstr("epochs or steps"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->steps = 1; }), HasSubstr("epochs or steps"));
  for (const int64_t epochs : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    RunOptions options;
    options.epochs = epochs;
    EXPECT_THAT(MessageOf(StartRun(step, options)), HasSubstr("expects 1 to"));
  }
  EXPECT_THAT(start(step, [](RunOptions* o) { o->steps = int64_t{1} << 40, o->epochs = 0; }),
              HasSubstr("numbers that vary"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->stop = {StopRule::Nan("losses")}; }),
              HasSubstr("a rule about a metric that there is, got losses"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->stop = {StopRule::Nan("evaluation/loss")}; }),
              HasSubstr("got evaluation/loss"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->name = "a b"; }), HasSubstr("a run's name"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->log_every = -1; }), HasSubstr("to log every"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->snapshot_every = 1; }), HasSubstr("--state-dir"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->snapshot_seconds = 1; }),
              HasSubstr("--state-dir"));
  EXPECT_THAT(start(step, [](RunOptions* o) { o->snapshot_seconds = -1; }), HasSubstr("got -1"));
  EXPECT_THAT(start({program, {}, kBatch, {}}, none), HasSubstr("an array of data at least"));
  EXPECT_THAT(start({program, {model.x}, kBatch, {}}, none), HasSubstr("expects 2 arrays"));
  EXPECT_THAT(start({program, {model.x, model.w}, kBatch, {}}, none),
              HasSubstr("as many rows each"));
  EXPECT_THAT(start({program, {model.x, model.t}, 5, {}}, none), HasSubstr("drop_last"));
  EXPECT_THAT(start({program, {model.x, model.t}, 0, {}}, none), HasSubstr("1 to 24 rows"));
  EXPECT_THAT(start({program, {model.x, model.t}, 6, {}}, none),
              HasSubstr("as the program was recorded with"));
  EXPECT_THAT(start({program, {model.x, model.t}, kBatch, {"a", "b", "c"}}, none),
              HasSubstr("names of at most 2 results"));
  EXPECT_THAT(ListRuns(*session_).value(), SizeIs(0));
}

}  // namespace
}  // namespace chx
