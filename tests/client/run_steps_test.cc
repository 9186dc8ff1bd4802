// Which rows the steps of the C++ client's runs have, and at which of them these log, evaluate and
// pause: as a loop of the programs' calls with these rows.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/autograd.h"
#include "client/optimizers.h"
#include "client/run.h"
#include "gmock/gmock.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Training = Run;  // as a test has a Run of its own
using Kind = Run::Event::Kind;

constexpr int64_t kRows = 22;
constexpr int64_t kBatch = 5;  // so that there is a rest

class RunStepsTest : public ClientTest {
 protected:
  using Rows = std::vector<int64_t>;

  // A linear model with noise and Adam; all that it has is made anew from the same numbers.
  struct Model {
    Array w;
    optimizers::Adam optimizer;
  };

  RunStepsTest() {
    const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
    std::printf("seed %u\n", seed);
    random_.seed(seed);
  }
  void SetUp() override {
    ClientTest::SetUp();
    x_ = Random({kRows, 3});
    t_ = Random({kRows, 1});
    w_ = Random({3, 1});
  }
  Array Random(const Shape& shape) {
    Vector values(static_cast<size_t>(NumElements(shape)));
    for (double& value : values) value = std::normal_distribution<>()(random_);
    return Make(values, shape);
  }
  Rows RandomRows(int64_t count) {
    Rows rows(static_cast<size_t>(count));
    for (int64_t& row : rows) row = std::uniform_int_distribution<int64_t>(0, kRows - 1)(random_);
    return rows;
  }
  Array Taken(const Array& array, const Rows& rows) const {
    const auto count = static_cast<int64_t>(rows.size());
    return take(array, Array::FromHost(*session_, rows.data(), {count}, Dtype::kInt64), 0);
  }
  Array Zeros(int64_t rows, int64_t columns) const {
    return zeros(*session_, {rows, columns}, Dtype::kFloat64);
  }

  std::unique_ptr<Model> MakeModel() const {
    auto model = std::make_unique<Model>();
    model->w = Make(Values(w_), {3, 1}).RequireGrad();
    model->optimizer.alpha = 0.05;
    EXPECT_TRUE(model->optimizer.Setup({model->w}).ok());
    return model;
  }
  // `noise`: random numbers are drawn so often, so that more numbers vary.
  Program Trace(Model* model, int64_t rows, int noise) const {
    const auto step = [this, model, noise](absl::Span<const Array> in) -> Program::Results {
      Array x = in[0];
      for (int i = 0; i < noise; ++i) {
        absl::StatusOr<ArrayPtr> drawn =
            session_->Random("random_normal", x.shape().span(), 0, 0.1, Dtype::kFloat64, 0);
        CHX_RETURN_IF_ERROR(drawn.status());
        x = x + Array(*std::move(drawn));
      }
      const Array loss = mean(square(matmul(x, model->w) - in[1]));
      CHX_RETURN_IF_ERROR(Backward(loss));
      CHX_RETURN_IF_ERROR(model->optimizer.Update());
      CHX_RETURN_IF_ERROR(model->optimizer.ClearGrads());
      return std::vector<Array>{loss};
    };
    absl::StatusOr<Program> program =
        Program::Trace(*session_, step, {Zeros(rows, 3), Zeros(rows, 1)});
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }
  // A program that changes nothing.
  Program TraceSum(int64_t rows) const {
    const auto step = [](absl::Span<const Array> in) -> Program::Results {
      return std::vector<Array>{sum(in[0])};
    };
    return Program::Trace(*session_, step, {Zeros(rows, 3)}).value();
  }
  absl::StatusOr<Training> StartSums(const RunOptions& run_options) const {
    return StartRun({TraceSum(2), {x_}, 2, {"sum"}}, run_options);
  }
  static std::vector<Training::Event> Waited(const Training& run, uint64_t start = 0) {
    std::vector<Training::Event> all;
    RunEvents events(run, start);
    for (Training::Event event; events.Next(&event).value();) all.push_back(event);
    return all;
  }
  // The steps of the events of a kind.
  static std::vector<int64_t> StepsOf(const std::vector<Training::Event>& events, Kind kind) {
    std::vector<int64_t> steps;
    for (const Training::Event& event : events) {
      if (event.kind == kind) steps.push_back(event.step);
    }
    return steps;
  }
  static std::vector<uint64_t> NumbersOf(const std::vector<Training::Event>& events) {
    std::vector<uint64_t> numbers;
    for (const Training::Event& event : events) numbers.push_back(event.number);
    return numbers;
  }
  static std::string MessageOf(const absl::StatusOr<Training>& run) {
    return std::string(run.status().message());
  }

  std::mt19937_64 random_;
  Array x_, t_, w_;
};

// The rows of each step are those of the daemon's order.
TEST_F(RunStepsTest, OrderOfAnEpochIsTheDaemons) {
  Vector numbers(kRows);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto seed = random_();
  RunOptions run_options;
  run_options.epochs = 3;
  run_options.shuffle = seed;
  run_options.log_every = 1;
  const auto step = [](absl::Span<const Array> in) -> Program::Results {
    return std::vector<Array>{sum(in[0])};
  };
  const Program program = Program::Trace(*session_, step, {Make({0})}).value();
  absl::StatusOr<Training> run = StartRun({program, {Make(numbers)}, 1, {"row"}}, run_options);
  ASSERT_OK(run.status());
  ASSERT_OK(run->Wait().status());
  Vector rows;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (int64_t row : EpochOrder(seed, epoch, kRows)) rows.push_back(static_cast<double>(row));
  }
  EXPECT_EQ(run->Metrics()->at("row"), rows);
  EXPECT_THAT(EpochOrder(seed, 0, 0), IsEmpty());
}

// Also more rows in a step than there are.
TEST_F(RunStepsTest, RowsAreThoseThatAreGiven) {
  for (const int64_t size : {int64_t{1}, int64_t{5}, kRows + 3}) {
    constexpr int64_t kSteps = 7;
    RunOptions run_options;
    run_options.rows = RandomRows(kSteps * size);
    run_options.log_every = 1;

    session_->Seed(3);
    const auto looped = MakeModel();
    const Program loop = Trace(looped.get(), size, 1);
    Vector losses;
    for (int64_t i = 0; i < kSteps; ++i) {
      const auto begin = run_options.rows.begin() + i * size;
      const Rows rows(begin, begin + size);
      looped->optimizer.alpha = 0.1 / static_cast<double>(i + 1);
      losses.push_back(Values(loop.Run({Taken(x_, rows), Taken(t_, rows)}).value()[0])[0]);
    }

    session_->Seed(3);
    const auto model = MakeModel();
    run_options.schedule = [&](int64_t step) {
      model->optimizer.alpha = 0.1 / static_cast<double>(step + 1);
      return absl::OkStatus();
    };
    absl::StatusOr<Training> run =
        StartRun({Trace(model.get(), size, 1), {x_, t_}, size, {"loss"}}, run_options);
    ASSERT_OK(run.status());
    ASSERT_OK(run->Wait().status());
    EXPECT_EQ(run->steps(), kSteps);
    EXPECT_EQ(run->Metrics()->at("loss"), losses);
    EXPECT_EQ(Values(model->w), Values(looped->w));
    EXPECT_EQ(model->optimizer.t(), looped->optimizer.t());
  }
}

// Minibatches of 5 and of the 2 that are left over, whose program has more numbers that vary.
TEST_F(RunStepsTest, RestOfAnEpochIsAMinibatch) {
  constexpr int64_t kEpochs = 3;
  constexpr int64_t kPerEpoch = 5;
  const auto rows_of = [](int64_t step) {
    const int64_t begin = step % kPerEpoch * kBatch;
    Rows rows(static_cast<size_t>(std::min(kBatch, kRows - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    return rows;
  };
  session_->Seed(4);
  const auto looped = MakeModel();
  const Program loop = Trace(looped.get(), kBatch, 1);
  const Program loop_rest = Trace(looped.get(), kRows % kBatch, 2);
  Vector losses;
  for (int64_t i = 0; i < kEpochs * kPerEpoch; ++i) {
    const Rows rows = rows_of(i);
    const Program& program = rows.size() == kBatch ? loop : loop_rest;
    losses.push_back(Values(program.Run({Taken(x_, rows), Taken(t_, rows)}).value()[0])[0]);
  }

  session_->Seed(4);
  const auto model = MakeModel();
  const Program program = Trace(model.get(), kBatch, 1);
  const RunStep step = {program, {x_, t_}, kBatch, {"loss"}, Trace(model.get(), kRows % kBatch, 2)};
  RunOptions run_options;
  run_options.epochs = kEpochs;
  run_options.log_every = 1;
  absl::StatusOr<Training> run = StartRun(step, run_options);
  ASSERT_OK(run.status());
  ASSERT_OK(run->Wait().status());
  EXPECT_EQ(run->steps_per_epoch(), kPerEpoch);
  EXPECT_EQ(run->Metrics()->at("loss"), losses);
  EXPECT_EQ(Values(model->w), Values(looped->w));

  run_options.drop_last = true;
  run = StartRun(step, run_options);
  ASSERT_OK(run.status());
  EXPECT_EQ(run->steps(), kEpochs * (kPerEpoch - 1));
  ASSERT_OK(run->Wait().status());
}

TEST_F(RunStepsTest, EvaluationCountsByRowsOrByMinibatches) {
  const Vector x = Values(x_);
  Vector sums;  // of each minibatch
  for (int64_t begin = 0; begin < kRows; begin += kBatch) {
    const auto end = std::min(begin + kBatch, kRows);
    sums.push_back(std::accumulate(x.begin() + 3 * begin, x.begin() + 3 * end, 0.0));
  }
  double by_rows = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    by_rows += sums[i] * static_cast<double>(i + 1 < sums.size() ? kBatch : kRows % kBatch);
  }
  const double by_minibatches = std::accumulate(sums.begin(), sums.end(), 0.0);
  for (const bool drop_last : {false, true}) {  // which is about the epochs of the step
    RunOptions run_options;
    run_options.epochs = 1;
    run_options.drop_last = drop_last;
    run_options.evaluation =
        RunStep{TraceSum(kBatch), {x_}, kBatch, {"sum"}, TraceSum(kRows % kBatch)};
    absl::StatusOr<Training> run = StartSums(run_options);
    ASSERT_OK(run.status());
    ASSERT_OK(run->Wait().status());
    EXPECT_NEAR(run->Metrics()->at("evaluation/sum")[0], by_rows / kRows, 1e-12);
    run_options.evaluate_weights = RunOptions::Weights::kMinibatches;
    run = StartSums(run_options);
    ASSERT_OK(run.status());
    ASSERT_OK(run->Wait().status());
    EXPECT_NEAR(run->Metrics()->at("evaluation/sum")[0],
                by_minibatches / static_cast<double>(sums.size()), 1e-12);
  }
}

TEST_F(RunStepsTest, LogsEvaluatesAndPausesAtSteps) {
  RunOptions run_options;
  run_options.steps = 40;
  run_options.log_at = {17, 3, 3, 40};
  run_options.evaluate_at = {5, 17};
  run_options.pause_at = {17, 20, 40};
  run_options.evaluation = RunStep{TraceSum(11), {x_}, 11, {"sum"}};
  absl::StatusOr<Training> run = StartSums(run_options);
  ASSERT_OK(run.status());
  RunEvents events(*run);
  std::vector<Training::Event> seen;
  for (Training::Event event; events.Next(&event).value();) {
    seen.push_back(event);
    if (event.kind != Kind::kPaused) continue;
    EXPECT_EQ(run->state().value(), Training::State::kPaused);
    EXPECT_EQ(run->step().value(), event.step);
    ASSERT_OK(run->Resume());
  }
  EXPECT_THAT(StepsOf(seen, Kind::kLog), ElementsAre(3, 17, 40));
  EXPECT_THAT(StepsOf(seen, Kind::kEvaluation), ElementsAre(5, 17, 40));
  EXPECT_THAT(StepsOf(seen, Kind::kPaused), ElementsAre(17, 20));
  EXPECT_THAT(StepsOf(seen, Kind::kResumed), ElementsAre(17, 20));

  // Beside an interval that is given.
  run_options.log_every = 10;
  run_options.pause_at = {};
  run = StartSums(run_options);
  ASSERT_OK(run.status());
  EXPECT_THAT(StepsOf(Waited(*run), Kind::kLog), ElementsAre(3, 10, 17, 20, 30, 40));
}

TEST_F(RunStepsTest, EventsAreGivenFromANumberOn) {
  RunOptions run_options;
  run_options.steps = 3000;
  run_options.log_every = 1;
  run_options.pause_at = {2000};
  absl::StatusOr<Training> run = StartSums(run_options);
  ASSERT_OK(run.status());
  RunEvents until_paused(*run);
  Training::Event paused;
  while (paused.kind != Kind::kPaused) ASSERT_TRUE(until_paused.Next(&paused).value());
  EXPECT_THAT(NumbersOf(run->Events(1999).value()), ElementsAre(1999, 2000, 2001));
  EXPECT_THAT(*run->Events(paused.number + 1), IsEmpty());
  EXPECT_THAT(*run->Events(700), SizeIs(paused.number + 1 - 700));
  RunEvents from_paused(*run, paused.number);
  Training::Event event;
  ASSERT_TRUE(from_paused.Next(&event).value());
  EXPECT_EQ(event.kind, Kind::kPaused);
  ASSERT_OK(run->Resume());
  ASSERT_TRUE(from_paused.Next(&event).value());
  EXPECT_EQ(event.kind, Kind::kResumed);
  ASSERT_OK(run->Wait().status());

  const uint64_t last = run->Events()->back().number;
  EXPECT_THAT(NumbersOf(Waited(*run, last - 1)), ElementsAre(last - 1, last));
  // The end comes in any case.
  for (const uint64_t start : {last, last + 1, uint64_t{1} << 62, ~uint64_t{0}}) {
    EXPECT_THAT(NumbersOf(Waited(*run, start)), ElementsAre(last));
    EXPECT_THAT(NumbersOf(run->Events(start).value()), ElementsAre(last));
  }
}

TEST_F(RunStepsTest, WrongStepsAreSaidBeforeItStarts) {
  const auto message = [this](void (*change)(RunOptions*)) {
    RunOptions run_options;
    change(&run_options);
    return MessageOf(StartSums(run_options));
  };
  EXPECT_THAT(message([](RunOptions* o) {
                o->rows = {0, 1, 2};
              }),
              HasSubstr("whole minibatches of 2, got 3"));
  for (const int64_t row : {int64_t{-1}, kRows}) {
    RunOptions run_options;
    run_options.rows = {0, row};
    EXPECT_THAT(MessageOf(StartSums(run_options)),
                HasSubstr(absl::StrCat("rows of 0 to 21, got ", row)));
  }
  for (const auto change :
       {+[](RunOptions* o) { o->epochs = 1; }, +[](RunOptions* o) { o->steps = 1; },
        +[](RunOptions* o) { o->shuffle = 1; }}) {
    RunOptions run_options;
    run_options.rows = {0, 1};
    change(&run_options);
    EXPECT_THAT(MessageOf(StartSums(run_options)), HasSubstr("expects rows, or epochs"));
  }
  EXPECT_THAT(message([](RunOptions* o) { o->steps = 3, o->log_at = {4}; }),
              HasSubstr("log_at of steps 1 to 3, got 4"));
  EXPECT_THAT(message([](RunOptions* o) {
                o->steps = 3, o->evaluate_at = {1, 0};
              }),
              HasSubstr("evaluate_at of steps 1 to 3, got 0"));
  EXPECT_THAT(message([](RunOptions* o) { o->steps = 3, o->pause_at = {-1}; }),
              HasSubstr("pause_at of steps 1 to 3, got -1"));

  RunOptions run_options;
  run_options.epochs = 1;
  const Program whole = TraceSum(5);
  EXPECT_THAT(MessageOf(StartRun({whole, {x_}, 5, {"sum"}}, run_options)),
              HasSubstr("a program for the rest, got 5"));
  EXPECT_THAT(MessageOf(StartRun({whole, {x_}, 5, {"sum"}, TraceSum(3)}, run_options)),
              HasSubstr("minibatches of float64(3, 3), as the program was recorded with, got "
                        "float64(2, 3)"));
  run_options.epochs = 0;
  run_options.rows = {0, 1, 2, 3, 4};
  EXPECT_THAT(MessageOf(StartRun({whole, {x_}, 5, {"sum"}, TraceSum(2)}, run_options)),
              HasSubstr("expects rows, or epochs"));
  EXPECT_THAT(ListRuns(*session_).value(), SizeIs(0));
}

}  // namespace
}  // namespace chx
