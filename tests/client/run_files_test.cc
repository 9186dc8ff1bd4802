// Runs of the C++ client whose data lies in files of the operator's (chxd --data-root).
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

#include "client/autograd.h"
#include "client/file_array.h"
#include "client/files/npz.h"
#include "client/optimizers.h"
#include "client/run.h"
#include "gmock/gmock.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Training = Run;  // as a test has a Run of its own

constexpr int64_t kRows = 24;
constexpr int64_t kBatch = 4;

class RunFilesTest : public ClientTest {
 protected:
  RunFilesTest() {
    std::filesystem::create_directory(root_);
    options.data_root = root_;
  }
  ~RunFilesTest() override { std::filesystem::remove_all(root_); }
  void SetUp() override {
    ClientTest::SetUp();
    const auto seed = static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed());
    std::printf("seed %u\n", seed);
    random_.seed(seed);
    x_ = Random({kRows, 3});
    t_ = Random({kRows, 1});
    ASSERT_OK(SaveNpz(root_ + "/train.npz", {{"x", x_}, {"t", t_}}));
  }
  Array Random(const Shape& shape) {
    Vector values(static_cast<size_t>(NumElements(shape)));
    for (double& value : values) value = std::normal_distribution<>()(random_);
    return Make(values, shape);
  }
  FileArray File(const std::string& name) const {
    return FindFileArray(*session_, "train.npz", name).value();
  }

  // The metrics and the parameter of a run with Adam and an evaluation, from the same beginning.
  std::pair<std::map<std::string, Vector>, Vector> Fit(const RunData& x, const RunData& t) {
    Array w = Make({0.1, -0.2, 0.3}, {3, 1}).RequireGrad();
    optimizers::Adam optimizer;
    EXPECT_TRUE(optimizer.Setup({w}).ok());
    const auto step = [&](absl::Span<const Array> in) -> Program::Results {
      const Array loss = mean(square(matmul(in[0], w) - in[1]));
      CHX_RETURN_IF_ERROR(Backward(loss));
      CHX_RETURN_IF_ERROR(optimizer.Update());
      CHX_RETURN_IF_ERROR(optimizer.ClearGrads());
      return std::vector<Array>{loss};
    };
    const auto evaluate = [&](absl::Span<const Array> in) -> Program::Results {
      return std::vector<Array>{sum(matmul(in[0], w.AsGradStopped()))};
    };
    const Array rows = zeros(*session_, {kBatch, 3}, Dtype::kFloat64);
    const Array targets = zeros(*session_, {kBatch, 1}, Dtype::kFloat64);
    RunOptions run_options;
    run_options.epochs = 3;
    run_options.shuffle = 7;
    run_options.log_every = 1;
    const Program evaluation = Program::Trace(*session_, evaluate, {rows}).value();
    run_options.evaluation = RunStep{evaluation, {x}, kBatch, {"sum"}};
    const Program program = Program::Trace(*session_, step, {rows, targets}).value();
    absl::StatusOr<Training> run = StartRun({program, {x, t}, kBatch, {"loss"}}, run_options);
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return {};
    EXPECT_EQ(run->Wait()->reason, "done");
    return {run->Metrics().value(), Values(w)};
  }
  // A run that goes on for ever.
  absl::StatusOr<Training> StartSum(const RunData& x) {
    const auto step = [](absl::Span<const Array> in) -> Program::Results {
      return std::vector<Array>{sum(in[0])};
    };
    const Array rows = zeros(*session_, {kBatch, 3}, Dtype::kFloat64);
    RunOptions run_options;
    run_options.steps = 1000000000;
    return StartRun({Program::Trace(*session_, step, {rows}).value(), {x}, kBatch, {"sum"}},
                    run_options);
  }

  const std::string root_ = testing::TempDir() + "/data";
  std::mt19937_64 random_;
  Array x_, t_;
};

TEST_F(RunFilesTest, FindsAndLoadsArrays) {
  const absl::StatusOr<FileArrayMap> found = FindFileArrays(*session_, "train.npz");
  ASSERT_OK(found.status());
  EXPECT_THAT(*found, ElementsAre(Pair("t", testing::_), Pair("x", testing::_)));
  const FileArray& x = found->at("x");
  EXPECT_EQ(x.path(), "train.npz");
  EXPECT_EQ(x.name(), "x");
  EXPECT_EQ(x.spec().ToString(), "float64(24, 3)");
  EXPECT_EQ(Values(x.Load()), Values(x_));
  const std::vector<int64_t> rows = {5, 0, 23, 5};
  const Array chosen = Array::FromHost(*session_, rows.data(), {4}, Dtype::kInt64);
  EXPECT_EQ(Values(x.Load(rows)), Values(take(x_, chosen, 0)));
  EXPECT_THAT(x.Load({24}).status().message(), HasSubstr("rows of 0 to 23"));
  EXPECT_THAT(x.Load(absl::Span<const int64_t>()).status().message(), HasSubstr("one row"));

  EXPECT_THAT(FindFileArray(*session_, "train.npz").status().message(),
              HasSubstr("of 'train.npz', which has t, x, got ''"));
  EXPECT_THAT(FindFileArray(*session_, "train.npz", "y").status().message(), HasSubstr("got 'y'"));
  for (const char* path : {"none.npz", "../train.npz", "", "/etc/passwd"}) {
    EXPECT_EQ(KindOf(FindFileArrays(*session_, path).status()), ErrorKind::kValue) << path;
  }
  ASSERT_OK(SaveNpz(root_ + "/one.npz", {{"only", t_}}));
  EXPECT_EQ(Values(FindFileArray(*session_, "one.npz")->Load()), Values(t_));
}

// Also where only one array is in a file.
TEST_F(RunFilesTest, AreEqualToArraysToTheLastBit) {
  const auto expected = Fit(x_, t_);
  EXPECT_EQ(expected.first.at("loss").size(), 3 * kRows / kBatch);
  EXPECT_EQ(expected.first.at("evaluation/sum").size(), 3);
  EXPECT_EQ(Fit(File("x"), File("t")), expected);
  EXPECT_EQ(Fit(File("x"), t_), expected);
  EXPECT_EQ(Fit(x_, File("t")), expected);
}

TEST_F(RunFilesTest, FileThatChangesEndsARun) {
  const FileArray x = File("x");
  absl::StatusOr<Training> run = StartSum(x);
  ASSERT_OK(run.status());
  std::ofstream(root_ + "/train.npz", std::ios::app) << "more";
  const absl::StatusOr<Training::Event> last = run->Wait();
  EXPECT_THAT(last.status().message(), HasSubstr("'train.npz': has changed"));
  EXPECT_THAT(x.Load().status().message(), HasSubstr("train.npz"));
}

TEST_F(RunFilesTest, WrongDataIsSaidBeforeItStarts) {
  EXPECT_THAT(StartSum(File("t")).status().message(), HasSubstr("program was recorded with"));
  ASSERT_OK(SaveNpz(root_ + "/scalar.npz", {{"s", Make({1}, {})}}));
  EXPECT_THAT(StartSum(FindFileArray(*session_, "scalar.npz").value()).status().message(),
              HasSubstr("as many rows each"));
  const Ref<Session> other = Session::Connect(UnixAddress()).value();
  EXPECT_THAT(StartSum(FindFileArray(*other, "train.npz", "x").value()).status().message(),
              HasSubstr("files that the program's session has found"));
  const FileArray x = File("x");
  std::filesystem::remove(root_ + "/train.npz");
  EXPECT_THAT(StartSum(x).status().message(), HasSubstr("no such file"));
}

TEST_F(ClientTest, DaemonWithoutAFolderHasNoFiles) {
  EXPECT_THAT(FindFileArrays(*session_, "train.npz").status().message(), HasSubstr("--data-root"));
}

}  // namespace
}  // namespace chx
