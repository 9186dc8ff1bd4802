// What plans say about themselves, and so what is fused, shared and left out.
#include "gmock/gmock.h"
#include "tests/session/fusion_fixture.h"

namespace chx::server {
namespace {

class ExplainTest : public FusionTest {
 protected:
  // What the daemon says about a program of these commands, on one array of a kind.
  std::string Explain(const Ints& shape, const std::vector<Command>& commands,
                      std::vector<Handle> outputs) {
    Open(1);
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    const std::string bytes = RandomBytes(Dtype::kFloat32, n);
    Run({command::Upload{1, Dtype::kFloat32, 0, shape, bytes}, command::BeginProgram{1, {1}}});
    Run(commands);
    Run({command::EndProgram{9, 1, List(outputs), {}}});
    return Ask(1);
  }
  std::string Ask(uint64_t program, bool measure = false) {
    Run({command::ExplainProgram{8, program, measure}});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 8u);
    return value.error == nullptr ? value.data : std::string(value.error->status.message());
  }
};

TEST_F(ExplainTest, SaysWhatRuns) {
  const std::vector<Command> commands = {Op("exp", {A(1)}, {2}), Op("add", {A(2), S(1.5)}, {3}),
                                         OpByDefault("sum", {A(3)}, {4}), Op("log", {A(1)}, {5})};
  EXPECT_EQ(Explain({2, 3}, commands, {4}),
            "program\t\nplan\t3\t0\narena\t0\t128\nresults\t64\n"
            "step\t0\t0\ncall\texp\tfloat32(2, 3)\tfloat32(2, 3)\n"
            "step\t0\t0\ncall\tadd\tfloat32(2, 3), 1.5\tfloat32(2, 3)\n"
            "step\t0\t0\ncall\tsum\tfloat32(2, 3)\tfloat32()\n"
            "dropped\tlog\n");
  // The intermediate arrays of what is fused are nowhere.
  EXPECT_EQ(Explain({100, 200}, commands, {4}),
            "program\t\nplan\t3\t0\narena\t0\t64\nresults\t64\n"
            "step\t0\t2048\ncall\texp\tfloat32(100, 200)\tfloat32(100, 200)\n"
            "call\tadd\tfloat32(100, 200), 1.5\tfloat32(100, 200)\n"
            "call\tsum\tfloat32(100, 200)\tfloat32()\n"
            "dropped\tlog\n");
  EXPECT_THAT(Ask(2), testing::HasSubstr("expects a program of this session, got 2"));
}

// Layer normalization, with a sum of what it gives: one pass over rows, and one that ends in the
// sum.
TEST_F(ExplainTest, ReductionsOfRowsAreFused) {
  const AttrValue last(Ints{-1});
  const std::vector<Command> commands = {Op("multiply", {A(1), A(1)}, {2}),
                                         OpByDefault("mean", {A(2)}, {3}, {last, true}),
                                         Op("subtract", {A(2), A(3)}, {4}),
                                         Op("multiply", {A(4), A(4)}, {5}),
                                         OpByDefault("mean", {A(5)}, {6}, {last, false}),
                                         Op("sqrt", {A(6)}, {7}),
                                         OpByDefault("reshape", {A(7)}, {8}, {Ints{-1, 1}}),
                                         Op("divide", {A(4), A(8)}, {9}),
                                         OpByDefault("softmax", {A(9)}, {10}, {last}),
                                         OpByDefault("sum", {A(10)}, {11}, {Ints{0}})};
  const std::string text = Explain({100, 200}, commands, {11});
  const auto count = [&text](const std::string& what) {
    int64_t n = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  EXPECT_EQ(count("step\t"), 2) << text;
  EXPECT_EQ(count("step\t0\t0\ncall\tsum"), 1) << text;  // of few rows
  EXPECT_EQ(count("arena\t0\t81920\n"), 1) << text;      // what it gets
}

TEST_F(ExplainTest, SumsOfLargeColumnsAreFused) {
  const auto sum = [](Handle x, Handle y) { return OpByDefault("sum", {A(x)}, {y}, {Ints{0}}); };
  // Where what they sum is used by nothing else it is nowhere.
  const std::vector<Command> two = {Op("exp", {A(1)}, {2}), sum(2, 3), sum(1, 4)};
  EXPECT_EQ(Explain({600, 500}, two, {3, 4}),
            "program\t\nplan\t3\t0\narena\t0\t32256\nresults\t4096\n"
            "step\t0\t16000\ncall\texp\tfloat32(600, 500)\tfloat32(600, 500)\n"
            "call\tsum\tfloat32(600, 500)\tfloat32(500,)\n"
            "call\tsum\tfloat32(600, 500)\tfloat32(500,)\n");
  // What uses a sum waits for all rows. Wide rows would not be in the cache; few are not cut.
  const std::vector<Command> used = {sum(1, 2), Op("multiply", {A(1), A(2)}, {3}), sum(3, 4)};
  EXPECT_THAT(Explain({600, 500}, used, {4}),
              testing::AllOf(testing::HasSubstr("step\t0\t0\ncall\tsum"),
                             testing::HasSubstr("step\t0\t8000\ncall\tmultiply")));
  const std::vector<Command> one = {Op("exp", {A(1)}, {2}), sum(2, 3)};
  for (const Ints& shape : {Ints{600, 3000}, Ints{400, 500}, Ints{100000, 5}}) {
    EXPECT_THAT(Explain(shape, one, {3}), testing::HasSubstr("step\t0\t0\ncall\tsum"));
  }
}

TEST_F(ExplainTest, MeasuresRuns) {
  Explain({2, 3}, {Op("exp", {A(1)}, {2})}, {2});
  command::RunProgram run;
  run.program = 1;
  run.times = 3;
  run.arguments = {1};
  run.results = {20};
  Run({run});
  EXPECT_THAT(Ask(1, true), testing::HasSubstr("plan\t1\t0\n"));
  run.results = {21};
  Run({run});
  const std::string measured = Ask(1);
  EXPECT_THAT(measured, testing::HasSubstr("plan\t1\t3\n"));
  EXPECT_THAT(measured, testing::Not(testing::HasSubstr("step\t0\t")));
}

TEST_F(ExplainTest, IsOfLimitedLength) {
  std::vector<Command> commands;
  for (Handle i = 2; i < 8000; ++i) commands.push_back(Op("exp", {A(i - 1)}, {i}));
  const std::string text = Explain({2, 3}, commands, {7999});
  EXPECT_LT(text.size(), 300U << 10);
  EXPECT_THAT(text, testing::HasSubstr("\nmore\t"));
}

TEST_F(ExplainTest, WhatIsComputedTwiceIsShared) {
  // The second exp and what follows from it; not what has changed in between, nor random numbers.
  EXPECT_THAT(Explain({2, 3},
                      {Op("exp", {A(1)}, {2}), Op("multiply", {A(2), S(2.0)}, {3}), ReleaseOf({2}),
                       Op("exp", {A(1)}, {4}), Op("multiply", {A(4), S(2.0)}, {5}),
                       Op("multiply", {A(4), S(-0.0)}, {6}), Op("multiply", {A(4), S(0.0)}, {7}),
                       Op("add", {A(3), A(5)}, {8}), Op("add", {A(6), A(7)}, {9}),
                       Op("add", {A(8), A(9)}, {10})},
                      {10}),
              testing::EndsWith("shared\texp\nshared\tmultiply\n"));
  EXPECT_THAT(Explain({2, 3},
                      {Op("exp", {A(1)}, {2}), Op("add_", {A(1), S(1.0)}, {}),
                       Op("exp", {A(1)}, {3}), Op("add", {A(2), A(3)}, {4})},
                      {4}),
              testing::Not(testing::HasSubstr("shared")));
  // Results are arrays of their own.
  EXPECT_THAT(Explain({2, 3}, {Op("exp", {A(1)}, {2}), Op("exp", {A(1)}, {3})}, {2, 3}),
              testing::Not(testing::HasSubstr("shared")));
}

TEST_F(ExplainTest, WhatGivesItsInputIsShared) {
  const Command exp = Op("exp", {A(1)}, {2});
  const Command sum = OpByDefault("sum", {A(3)}, {4}, {Ints{0}});
  // x / 1, and sums of one element; not of two.
  const std::vector<Command> commands = {exp, Op("divide", {A(2), S(1.0)}, {3}), sum,
                                         Op("log", {A(4)}, {5})};
  EXPECT_THAT(Explain({1, 3}, commands, {5}), testing::EndsWith("shared\tdivide\nshared\tsum\n"));
  EXPECT_THAT(Explain({2, 3}, commands, {5}), testing::EndsWith("shared\tdivide\n"));
  EXPECT_THAT(
      Explain({2, 3}, {exp, Op("divide", {A(2), S(2.0)}, {3}), Op("log", {A(3)}, {4})}, {4}),
      testing::Not(testing::HasSubstr("shared")));
  // Not what changes afterwards, nor results.
  EXPECT_THAT(Explain({2, 3},
                      {Op("divide", {A(1), S(1.0)}, {2}), Op("add_", {A(1), S(1.0)}, {}),
                       Op("log", {A(2)}, {3})},
                      {3}),
              testing::Not(testing::HasSubstr("shared")));
  EXPECT_THAT(Explain({2, 3}, {exp, Op("divide", {A(2), S(1.0)}, {3})}, {3}),
              testing::Not(testing::HasSubstr("shared")));
}

}  // namespace
}  // namespace chx::server
