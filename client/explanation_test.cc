#include "client/explanation.h"

#include "gmock/gmock.h"

namespace chx {
namespace {

using testing::HasSubstr;
using testing::Not;

// A plan with all that there may be; two that nobody has measured; none.
std::vector<Explained> Recordings() {
  return {{"f(x)",
           "program\t\n"
           "plan\t3\t4\n"
           "arena\t0\t2560\narena\t1\t3221225472\nresults\t1000\n"
           "step\t8000\t256\n"
           "call\texp\tfloat32(20, 9)\tfloat32(20, 9)\n"
           "call\tsum\tfloat32(20, 9), axis 1\tfloat32(20)\n"
           "step\t24000000\t0\ncall\tmatmul\ta\tb\n"
           "more\t7\n"
           "shared\texp\nshared\ttanh\nshared\texp\ndropped\tlog\n"},
          {"g<lambda>",
           "program\t\n"
           "plan\t1\t0\nresults\t0\nstep\t0\t0\ncall\tadd\t<'x' & \"y\">\tz\n"
           "plan\t1\t0\nresults\t3145728\nstep\t0\t0\ncall\tadd\tx\ty\n"},
          {"h()", "program\targuments share memory\n"}};
}

TEST(ExplanationTest, IsText) {
  EXPECT_EQ(ExplanationAsText(Recordings()),
            R"(f(x): runs by a plan
  temporaries: 2.5 KiB on device 0, 3 GiB on device 1; results: 1000 B
  computed once, used again: exp ×2, tanh
  left out, as nothing depends on it: log
  measured: 4 runs of 6.00 ms each
      2.0 µs   0%  fused, in blocks of 256 elements:
                     exp(float32(20, 9)) -> float32(20, 9)
                     sum(float32(20, 9), axis 1) -> float32(20)
     6.00 ms 100%  matmul(a) -> b
  and 7 more
g<lambda>: runs by a plan
 plan 1 of 2
  temporaries: none; results: 0 B
  add(<'x' & "y">) -> z
 plan 2 of 2
  temporaries: none; results: 3 MiB
  add(x) -> y
h(): runs by its commands: arguments share memory)");
  EXPECT_EQ(ExplanationAsText({}), "nothing has been recorded");
}

TEST(ExplanationTest, SaysWhatIsOneKernel) {
  const std::vector<Explained> recordings = {
      {"f(x)",
       "program\t\nplan\t1\t0\nresults\t0\nstep\t0\t0\ncall\texp\tx\ty\ncall\ttanh\ty\tz\n"}};
  EXPECT_EQ(ExplanationAsText(recordings), R"(f(x): runs by a plan
  temporaries: none; results: 0 B
  fused, in one kernel:
    exp(x) -> y
    tanh(y) -> z)");
}

TEST(ExplanationTest, IsAPicture) {
  const std::string svg = ExplanationAsSvg(Recordings());
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" "
                                       "height=\"372\" font-family=\"monospace\""));
  for (const char* part :
       {"<text x=\"8\" y=\"21\" font-weight=\"bold\">f(x): runs by a plan</text>",
        "<rect x=\"8\" y=\"102\" width=\"884\" height=\"58\" rx=\"4\" fill=\"#fff1d6\"",
        "<rect x=\"684\" y=\"167\" width=\"199.9\" height=\"12\" fill=\"#e07a5f\"/>",
        "<text x=\"676\" y=\"115\" text-anchor=\"end\" fill=\"#555\">2.0 µs   0%</text>",
        "<text x=\"24\" y=\"133\" >exp(float32(20, 9)) → float32(20, 9)</text>",
        "<text x=\"16\" y=\"177\" >matmul(a) → b</text>", ">and 7 more</text>",
        "<text x=\"16\" y=\"269\" >add(&lt;&#x27;x&#x27; &amp; &quot;y&quot;&gt;) → z</text>",
        "<text x=\"8\" y=\"355\" font-weight=\"bold\">h(): runs by its commands: "
        "arguments share memory</text>\n</svg>\n"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(ExplanationAsSvg({}), Not(HasSubstr("text")));
}

TEST(ExplanationTest, OnDevicesThatRepeatSequences) {
  EXPECT_EQ(
      ExplanationAsText({{"f()",
                          "program\t\nplan\t1\t0\nresults\t0\nsequences\t4\t17\n"
                          "step\t0\t0\ncall\tadd\tx\ty\n"}}),
      "f(): runs by a plan\n  temporaries: none; results: 0 B\n"
      "  in sequences that the device repeats as one: 4 steps, 17 repetitions\n  add(x) -> y");
}

// Whatever a daemon says.
TEST(ExplanationTest, OtherLinesAreNoMatter) {
  EXPECT_EQ(ExplanationAsText({{"f()",
                                "call\ta\tb\tc\nplan\nstep\n\ncall\nnew\t1\nmore\tx\n"
                                "step\t99999999999999999999\t-1\ncall\tadd\nmeasured"}}),
            "f(): runs by a plan\n  temporaries: none; results: 0 B\n  () -> \n  add() -> ");
  EXPECT_EQ(ExplanationAsText({{"f()", ""}}), "f(): runs by its commands: ");
}

}  // namespace
}  // namespace chx
