// Which convolutions and poolings cuDNN is asked for, and which of its algorithms are taken.
#include "server/cuda/vendor/dnn.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace chx::server::cuda {
namespace {

using kernels::Windows;

// image, kernel, stride, pad of each dimension; counts as a convolution makes them.
struct Dim {
  int64_t image;
  int64_t kernel;
  int64_t stride = 1;
  int64_t pad = 0;
};
Windows Make(const std::vector<Dim>& dims) {
  Windows windows;
  for (const Dim& d : dims) {
    windows.Append(d.image, (d.image + 2 * d.pad - d.kernel) / d.stride + 1, d.kernel, d.stride,
                   d.pad);
  }
  return windows;
}

TEST(DnnTest, OneDimensionBecomesTwo) {
  const absl::optional<DnnWindows> w = ToDnn(Make({{10, 3, 2, 1}}));
  ASSERT_TRUE(w.has_value());
  EXPECT_EQ(w->ndim, 2);
  const int want[2][5] = {{10, 5, 3, 2, 1}, {1, 1, 1, 1, 0}};
  for (int d = 0; d < 2; ++d) {
    const int got[5] = {w->image[d], w->counts[d], w->kernel[d], w->stride[d], w->pad[d]};
    EXPECT_EQ(std::vector<int>(got, got + 5), std::vector<int>(want[d], want[d] + 5)) << d;
  }
}

TEST(DnnTest, TakesTwoAndThreeDimensionsAndLeavesOthers) {
  const Dim d = {5, 3};
  for (int ndim = 1; ndim <= 6; ++ndim) {
    EXPECT_EQ(ToDnn(Make(std::vector<Dim>(ndim, d))).has_value(), ndim <= 3) << ndim;
  }
  EXPECT_EQ(ToDnn(Make({d, d, d}))->ndim, 3);
}

TEST(DnnTest, LeavesWindowsThatAreNotAllThatFit) {
  Windows cover_all;  // 4 windows of 2 in steps of 2 over 7 elements
  cover_all.Append(7, 4, 2, 2, 0);
  EXPECT_FALSE(ToDnn(cover_all).has_value());
  Windows fewer;
  fewer.Append(8, 3, 2, 2, 0);
  EXPECT_FALSE(ToDnn(fewer).has_value());
  Windows part = Make({{8, 2, 2}});
  EXPECT_TRUE(ToDnn(part).has_value());
  // Rows of windows have negative padding.
  EXPECT_FALSE(ToDnn(part.Rows(1, 2)).has_value());
}

TEST(DnnTest, LeavesWhatAnIntCannotCount) {
  constexpr int64_t kLarge = int64_t{1} << 31;
  Windows windows;
  windows.Append(kLarge, kLarge, 1, 1, 0);
  EXPECT_FALSE(ToDnn(windows).has_value());
  windows = Windows();
  windows.Append(5, 5, 1, 1, kLarge);
  EXPECT_FALSE(ToDnn(windows).has_value());
  const Windows small = Make({{64, 1}, {64, 1}});
  const auto fits = [&](int64_t samples, int64_t channels, int64_t features) {
    return PlanConv(ConvPart::kFeatures, Dtype::kFloat32, small, samples, channels, features)
        .has_value();
  };
  EXPECT_TRUE(fits(1, 1, 1));
  EXPECT_TRUE(fits(1024, 511, 1));
  EXPECT_FALSE(fits(1024, 512, 1));  // an image of 2^31 elements
  EXPECT_FALSE(fits(1024, 1, 512));  // and features
  EXPECT_FALSE(fits(1, 1 << 16, 1 << 16));
  EXPECT_FALSE(fits(INT64_MAX, 1, 1));
  EXPECT_FALSE(fits(INT32_MAX, INT32_MAX, INT32_MAX));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(fits(i != 0, i != 1, i != 2)) << i;
}

TEST(DnnTest, APlanHasTheSizesOfItsOperator) {
  const absl::optional<ConvCall> call =
      PlanConv(ConvPart::kWeight, Dtype::kFloat16, Make({{7, 3}, {9, 5, 2, 2}}), 2, 3, 4);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->part, ConvPart::kWeight);
  EXPECT_EQ(call->dtype, Dtype::kFloat16);
  EXPECT_EQ(call->samples, 2);
  EXPECT_EQ(call->channels, 3);
  EXPECT_EQ(call->features, 4);
  EXPECT_EQ(call->windows.counts[1], 5);
  EXPECT_FALSE(call->accumulate);
}

Algorithm Make(int number, int64_t workspace, bool deterministic) {
  Algorithm algorithm;
  algorithm.number = number;
  algorithm.works = algorithm.exact = true;
  algorithm.workspace = workspace;
  algorithm.deterministic = deterministic;
  return algorithm;
}

TEST(DnnTest, TheFastestAlgorithmThatTheSettingsAllow) {
  std::vector<Algorithm> algorithms = {Make(3, 100, false), Make(1, 50, true), Make(2, 0, false),
                                       Make(0, 0, true)};
  bool tf32 = false;
  const auto choose = [&](int64_t workspace, bool deterministic) {
    Settings settings;
    settings.max_workspace_size = workspace;
    settings.cudnn_deterministic = deterministic;
    settings.cudnn_tf32 = tf32;
    const absl::optional<Algorithm> chosen = Choose(algorithms, settings);
    return chosen.has_value() ? chosen->number : -1;
  };
  EXPECT_EQ(choose(1000, false), 3);
  EXPECT_EQ(choose(100, false), 3);
  EXPECT_EQ(choose(99, false), 1);
  EXPECT_EQ(choose(0, false), 2);
  EXPECT_EQ(choose(1000, true), 1);
  EXPECT_EQ(choose(49, true), 0);
  algorithms[0].works = false;
  EXPECT_EQ(choose(1000, false), 1);
  algorithms[1].exact = false;
  EXPECT_EQ(choose(1000, false), 2);
  tf32 = true;
  EXPECT_EQ(choose(1000, false), 1);
  tf32 = false;
  algorithms[2].workspace = -1;
  EXPECT_EQ(choose(1000, false), 0);
  algorithms[3].works = false;
  EXPECT_EQ(choose(1000, false), -1);
  EXPECT_FALSE(Choose({}, Settings()).has_value());
}

// Another choice for whatever may change it: among others, a call that adds to its output is tried
// on another one.
TEST(DnnTest, TheKeyOfAChoiceHasAllThatItDependsOn) {
  const ConvCall call =
      *PlanConv(ConvPart::kFeatures, Dtype::kFloat32, Make({{6, 3}, {5, 2}}), 2, 3, 4);
  const Settings settings;
  std::set<std::string> keys = {ChoiceKey(call, settings)};
  const auto other = [&](auto change) {
    ConvCall changed = call;
    change(changed);
    EXPECT_TRUE(keys.insert(ChoiceKey(changed, settings)).second) << keys.size();
  };
  other([](ConvCall& c) { c.part = ConvPart::kWeight; });
  other([](ConvCall& c) { c.dtype = Dtype::kFloat64; });
  other([](ConvCall& c) { c.samples = 9; });
  other([](ConvCall& c) { c.channels = 9; });
  other([](ConvCall& c) { c.features = 9; });
  other([](ConvCall& c) { c.accumulate = true; });
  other([](ConvCall& c) { c.windows.stride[1] = 2; });
  other([](ConvCall& c) { c.windows.pad[0] = 1; });
  Settings limited;
  limited.max_workspace_size /= 2;
  EXPECT_TRUE(keys.insert(ChoiceKey(call, limited)).second);
  Settings exact;
  exact.cudnn_tf32 = false;
  EXPECT_TRUE(keys.insert(ChoiceKey(call, exact)).second);
  // Where its arrays are does not matter.
  ConvCall moved = call;
  moved.a = &moved;
  EXPECT_FALSE(keys.insert(ChoiceKey(moved, settings)).second);
}

}  // namespace
}  // namespace chx::server::cuda
