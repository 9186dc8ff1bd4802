// Programs of the C++ client: what they repeat is what their function does, to the last bit.
#include "client/program.h"

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "client/autograd.h"
#include "client/gradients.h"
#include "client/optimizers.h"
#include "gmock/gmock.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using optimizers::Optimizer;
using testing::HasSubstr;

class ProgramTest : public ClientTest {
 protected:
  using Arrays = std::vector<Array>;

  Array MakeFloats(unsigned seed, const Shape& shape) const {
    std::vector<float> values;
    for (int64_t i = 0; i < NumElements(shape); ++i) {
      seed = seed * 1664525 + 1013904223;
      values.push_back(static_cast<float>(seed >> 8) / (1 << 24) - 0.5f);
    }
    return Array::FromHost(*session_, values.data(), shape, Dtype::kFloat32);
  }
  static std::string Bytes(const Array& array) {
    EXPECT_TRUE(array.ok()) << array.status();
    if (!array.ok()) return "";
    std::string bytes(static_cast<size_t>(array.spec().size() * array.spec().item_size()), '\0');
    const absl::Status read = array.CopyTo(bytes.data(), bytes.size());
    EXPECT_TRUE(read.ok()) << read;
    return bytes;
  }
  // What went wrong; empty: nothing.
  template <typename T>
  static std::string MessageOf(const absl::StatusOr<T>& result) {
    return std::string(result.status().message());
  }
};

struct Model {
  Array w1, b1, w2;
  std::unique_ptr<Optimizer> optimizer;
  std::function<void(double)> set_rate;

  Program::Results Step(absl::Span<const Array> in) const {
    const Array hidden = tanh(matmul(in[0], w1) + b1);
    const Array loss = mean(square(matmul(hidden, w2) - in[1]));
    CHX_RETURN_IF_ERROR(Backward(loss));
    CHX_RETURN_IF_ERROR(optimizer->Update());
    CHX_RETURN_IF_ERROR(optimizer->ClearGrads());
    return std::vector<Array>{loss};
  }
};

TEST_F(ProgramTest, TrainingIsThatOfTheFunction) {
  const auto models = [this](const auto& make) {
    Model model;
    model.w1 = MakeFloats(1, {6, 5}).RequireGrad();
    model.b1 = MakeFloats(2, {5}).RequireGrad();
    model.w2 = MakeFloats(3, {5, 2}).RequireGrad();
    make(&model);
    EXPECT_TRUE(model.optimizer->Setup({model.w1, model.b1, model.w2}).ok());
    EXPECT_TRUE(model.optimizer->AddHook("decay", optimizers::WeightDecay{1e-3}).ok());
    return model;
  };
  const auto adam = [](Model* model) {
    auto optimizer = std::make_unique<optimizers::Adam>();
    model->set_rate = [adam = optimizer.get()](double rate) { adam->alpha = rate; };
    model->optimizer = std::move(optimizer);
  };
  const auto momentum = [](Model* model) {
    auto optimizer = std::make_unique<optimizers::MomentumSGD>();
    model->set_rate = [sgd = optimizer.get()](double rate) { sgd->lr = rate; };
    model->optimizer = std::move(optimizer);
  };
  const auto bound = [](Model* model) {
    auto optimizer = std::make_unique<optimizers::AMSBound>();
    model->set_rate = [adam = optimizer.get()](double rate) { adam->alpha = rate; };
    model->optimizer = std::move(optimizer);
  };
  const std::vector<std::function<void(Model*)>> all = {adam, momentum, bound};
  for (const auto& make : all) {
    const Model eager = models(make);
    const Model recorded = models(make);
    absl::optional<Program> program;
    const int times[] = {1, 1, 3, 1, 2};
    for (unsigned i = 0; i < 5; ++i) {
      const Array x = MakeFloats(10 + i, {4, 6});
      const Array t = MakeFloats(20 + i, {4, 2});
      eager.set_rate(0.1 / (i + 1));
      recorded.set_rate(0.1 / (i + 1));
      Arrays expected;
      for (int k = 0; k < times[i]; ++k) {
        Program::Results results = eager.Step({x, t});
        ASSERT_TRUE(results.ok()) << results.status();
        expected = *results;
      }
      Arrays got;
      if (!program.has_value()) {
        absl::StatusOr<Program> traced = Program::Trace(
            *session_, [&](absl::Span<const Array> in) { return recorded.Step(in); }, {x, t});
        ASSERT_TRUE(traced.ok()) << traced.status();
        EXPECT_EQ(traced->declined(), "");
        program = *traced;
        got = program->first_results();
      } else {
        Program::Results results = program->Run({x, t}, times[i]);
        ASSERT_TRUE(results.ok()) << results.status();
        got = *results;
      }
      ASSERT_EQ(got.size(), 1u);
      EXPECT_FALSE(got[0].IsBackpropRequired());
      EXPECT_EQ(Bytes(got[0]), Bytes(expected[0])) << i;
      EXPECT_EQ(Bytes(recorded.w1), Bytes(eager.w1)) << i;
      EXPECT_EQ(Bytes(recorded.w2), Bytes(eager.w2)) << i;
      EXPECT_EQ(recorded.optimizer->t(), eager.optimizer->t());
    }
    // The state is the optimizer's own, also after it has been loaded.
    const absl::StatusOr<ArrayMap> state = eager.optimizer->State();
    ASSERT_TRUE(state.ok()) << state.status();
    ArrayMap saved;
    for (const auto& [name, array] : *state) saved[name] = copy(array);
    const Array x = MakeFloats(30, {4, 6});
    const Array t = MakeFloats(31, {4, 2});
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(program->Run({x, t}).ok());
      ASSERT_TRUE(eager.Step({x, t}).ok());
      ASSERT_OK(recorded.optimizer->LoadState(saved));
      ASSERT_OK(eager.optimizer->LoadState(saved));
    }
    ASSERT_TRUE(program->Run({x, t}).ok());
    ASSERT_TRUE(eager.Step({x, t}).ok());
    EXPECT_EQ(recorded.optimizer->t(), eager.optimizer->t());
    EXPECT_EQ(Bytes(recorded.w1), Bytes(eager.w1));
  }
}

TEST_F(ProgramTest, RandomNumbersGoOn) {
  const auto noisy = [this](absl::Span<const Array> in) -> Program::Results {
    absl::StatusOr<ArrayPtr> noise =
        session_->Random("random_normal", in[0].shape().span(), 0, 1, Dtype::kFloat64, 0);
    CHX_RETURN_IF_ERROR(noise.status());
    return Arrays{in[0] + Array(*std::move(noise))};
  };
  const Array x = Make({1, 2, 3});
  session_->Seed(7);
  std::vector<std::string> expected(6);
  for (std::string& bytes : expected) bytes = Bytes((*noisy({x}))[0]);
  EXPECT_NE(expected[0], expected[1]);
  session_->Seed(7);
  const absl::StatusOr<Program> program = Program::Trace(*session_, noisy, {x});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->declined(), "");
  EXPECT_EQ(Bytes(program->first_results()[0]), expected[0]);
  EXPECT_EQ(Bytes((*program->Run({x}))[0]), expected[1]);
  EXPECT_EQ(Bytes((*program->Run({x}, 3))[0]), expected[4]);
  EXPECT_EQ(Bytes((*noisy({x}))[0]), expected[5]);
}

TEST_F(ProgramTest, ManyTimesWithNumbersThatVary) {
  constexpr int64_t kTimes = 70000;  // more than a command has room for
  Array total = Make({0});
  optimizers::SGD sgd;
  sgd.lr = 1;
  Array p = MakeParam({0});
  ASSERT_OK(sgd.Setup({p}));
  const auto step = [&](absl::Span<const Array> in) -> Program::Results {
    CHX_RETURN_IF_ERROR(total += in[0]);
    CHX_RETURN_IF_ERROR(p.SetGrad(in[0]));
    CHX_RETURN_IF_ERROR(sgd.Update());
    return Arrays{total * 2.0};
  };
  const absl::StatusOr<Program> program = Program::Trace(*session_, step, {Make({1})});
  ASSERT_TRUE(program.ok()) << program.status();
  const Program::Results results = program->Run({Make({2})}, kTimes);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ(Values((*results)[0]), Vector({2.0 * (1 + 2 * kTimes)}));
  EXPECT_EQ(Values(p), Vector({-1.0 - 2 * kTimes}));
  EXPECT_EQ(sgd.t(), kTimes + 1);
  EXPECT_THAT(MessageOf(program->Run({Make({2})}, 0)), HasSubstr("expects 1 time at least"));
}

TEST_F(ProgramTest, GradientsStayWhereTheFunctionLeavesThem) {
  Array w = MakeParam({3, 4});
  const auto step = [&](absl::Span<const Array> in) -> Program::Results {
    CHX_RETURN_IF_ERROR(Backward(sum(w * in[0])));
    return Arrays{};
  };
  absl::StatusOr<Program> program = Program::Trace(*session_, step, {Make({1, 2})});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_TRUE(program->first_results().empty());
  ASSERT_TRUE(program->Run({Make({10, 20})}, 2).ok());
  EXPECT_EQ(Values(w.Grad()), Vector({21, 42}));
  ASSERT_OK(w.ClearGrad());
  const absl::StatusOr<Program> moved = std::move(program);
  ASSERT_TRUE(moved->Run({Make({5, 5})}).ok());
  EXPECT_EQ(Values(w.Grad()), Vector({5, 5}));
}

TEST_F(ProgramTest, GradientsOfGradientsAreThoseOfTheFunction) {
  const Array w = MakeFloats(1, {4, 3}).RequireGrad();
  const auto step = [&](absl::Span<const Array> in) -> Program::Results {
    BackwardArgs twice;
    twice.enable_double_backprop = true;
    const Array loss = sum(tanh(matmul(in[0], w)));
    CHX_ASSIGN_OR_RETURN(const Arrays first, Grad({loss}, {w}, {}, twice));
    CHX_RETURN_IF_ERROR(w.ClearGrad());
    const Array penalty = sum(square(first[0])) + sum(first[0] * in[1]);
    CHX_RETURN_IF_ERROR(Backward(penalty));
    return Arrays{penalty, w.Grad()};
  };
  absl::optional<Program> program;
  for (unsigned i = 0; i < 3; ++i) {
    const Arrays in = {MakeFloats(10 + i, {5, 4}), MakeFloats(20 + i, {4, 3})};
    const Program::Results expected = step(in);
    ASSERT_TRUE(expected.ok()) << expected.status();
    Program::Results got;
    if (i == 0) {
      absl::StatusOr<Program> traced = Program::Trace(*session_, step, in);
      ASSERT_TRUE(traced.ok()) << traced.status();
      EXPECT_EQ(traced->declined(), "");
      program = *traced;
      got = program->first_results();
    } else {
      got = program->Run(in);
      ASSERT_TRUE(got.ok()) << got.status();
    }
    ASSERT_EQ(got->size(), 2u);
    EXPECT_EQ(Bytes((*got)[0]), Bytes((*expected)[0]));
    EXPECT_EQ(Bytes((*got)[1]), Bytes((*expected)[1]));
    EXPECT_EQ(Bytes(w.Grad()), Bytes((*expected)[1]));
  }
}

TEST_F(ProgramTest, WhatCannotBeRecordedSaysWhatToDo) {
  const Array x = Make({1, 2});
  const auto trace = [&](const Program::Function& function) {
    return MessageOf(Program::Trace(*session_, function, {x}));
  };
  EXPECT_THAT(trace([](absl::Span<const Array> in) -> Program::Results {
                CHX_ASSIGN_OR_RETURN(const double value, sum(in[0]).Item());
                return Arrays{in[0] * value};
              }),
              HasSubstr("Return the array, and read it outside"));
  EXPECT_THAT(trace([](absl::Span<const Array>) -> Program::Results { return ValueError("mine"); }),
              HasSubstr("mine"));
  EXPECT_THAT(trace([this](absl::Span<const Array> in) -> Program::Results {
                return Arrays{matmul(in[0], Make({1, 2, 3}))};
              }),
              HasSubstr("matmul"));
  EXPECT_THAT(
      trace([this](absl::Span<const Array>) -> Program::Results { return Arrays{Make({1})}; }),
      HasSubstr("made of host memory"));
  EXPECT_THAT(
      trace([&](absl::Span<const Array> in) -> Program::Results {
        CHX_RETURN_IF_ERROR(Program::Trace(*session_,
                                           [](absl::Span<const Array> a) -> Program::Results {
                                             return Arrays{a[0] + 1.0};
                                           },
                                           {in[0]})
                                .status());
        return Arrays{};
      }),
      HasSubstr("one recording at a time"));
  EXPECT_THAT(trace([&](absl::Span<const Array>) -> Program::Results { return Arrays{Array()}; }),
              HasSubstr("never assigned"));
  // And the session goes on.
  EXPECT_EQ(Values(x + 1.0), Vector({2, 3}));
}

TEST_F(ProgramTest, RunsAreChecked) {
  const Array x = Make({1, 2});
  absl::StatusOr<Program> program = Program::Trace(
      *session_,
      [](absl::Span<const Array> in) -> Program::Results { return Arrays{in[0] * in[1]}; },
      {x, Make({3, 4})});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(MessageOf(program->Run({x})), HasSubstr("expects 2 arrays, got 1"));
  EXPECT_THAT(MessageOf(program->Run({x, Make({1})})), HasSubstr("as argument 1"));
  EXPECT_THAT(MessageOf(program->Run({x, Array()})), HasSubstr("never assigned"));
  EXPECT_EQ(Values((*program->Run({x, x}))[0]), Vector({1, 4}));

  const absl::StatusOr<Ref<Session>> other = Session::Connect(UnixAddress());
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(MessageOf(program->Run({x, ones(**other, {2}, Dtype::kFloat64)})),
              HasSubstr("session"));

  auto sgd = std::make_unique<optimizers::SGD>();
  const Array p = MakeParam({0, 0});
  ASSERT_OK(sgd->Setup({p}));
  program = Program::Trace(*session_,
                           [&](absl::Span<const Array> in) -> Program::Results {
                             CHX_RETURN_IF_ERROR(p.SetGrad(in[0]));
                             CHX_RETURN_IF_ERROR(sgd->Update());
                             return Arrays{};
                           },
                           {x});
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(program->Run({x}).ok());
  sgd.reset();
  EXPECT_THAT(MessageOf(program->Run({x})), HasSubstr("which is gone"));
}

TEST_F(ProgramTest, SaysWhatItDoes) {
  const auto step = [](absl::Span<const Array> in) -> Program::Results {
    const Array unused = log(in[0]);
    return Arrays{sum(exp(in[0]) * 2.0 + exp(in[0]))};
  };
  const Array x = ones(*session_, {200, 100}, Dtype::kFloat32);
  const absl::StatusOr<Program> program = Program::Trace(*session_, step, {x});
  ASSERT_TRUE(program.ok()) << program.status();
  absl::StatusOr<std::string> text = program->Explain(/*profile=*/true);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, testing::StartsWith("program(float32(200, 100)): runs by a plan\n"));
  for (const char* part :
       {"computed once, used again: exp", "left out, as nothing depends on it: log",
        "fused, in blocks of", "exp(float32(200, 100)) -> float32(200, 100)"}) {
    EXPECT_THAT(*text, HasSubstr(part));
  }
  EXPECT_THAT(*text, testing::Not(HasSubstr("measured")));
  ASSERT_TRUE(program->Run({x}, 5).ok());
  EXPECT_THAT(*program->Explain(), HasSubstr("measured: 5 runs of"));
  const absl::StatusOr<std::string> svg = program->ExplainAsSvg();
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(*svg, testing::StartsWith("<svg "));
  EXPECT_THAT(*svg, HasSubstr("exp(float32(200, 100)) → float32(200, 100)"));
  EXPECT_THAT(*svg, HasSubstr("measured: 5 runs of"));

  // Of a published one, for each of its shapes.
  const Program narrow = Program::Trace(*session_, step, {Make({1, 2})}).value();
  ASSERT_TRUE(PublishProgram(*session_, "sum", {*program, narrow}).ok());
  const absl::StatusOr<Ref<Session>> other = Session::Connect(UnixAddress());
  ASSERT_TRUE(other.ok());
  const absl::StatusOr<Program> found = LookupProgram(**other, "sum");
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(found->Run({ones(**other, {2}, Dtype::kFloat64)}).ok());
  text = found->Explain();
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("program(float32(200, 100)): runs by "));
  EXPECT_THAT(*text, HasSubstr("program(float64(2,)): runs by a plan"));
  // A session that has ended does not answer.
  ASSERT_OK((*other)->Close());
  EXPECT_FALSE(found->Explain().ok());
}

}  // namespace
}  // namespace chx
