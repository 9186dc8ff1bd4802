// Which recurrent networks cuDNN is asked for.
#include "server/cuda/vendor/dnn_rnn.h"

#include <vector>

#include "gtest/gtest.h"

namespace chx::server::cuda {
namespace {

RnnNetwork Network(const Ints& rows, int64_t input, int64_t hidden, int layers = 1,
                   int directions = 1, int mode = 0, int64_t more = 0) {
  int64_t total = 0;
  for (const int64_t n : rows) total += n;
  const Shape hx = {layers * directions, rows[0] + more, hidden};
  const AttrValue attrs[] = {AttrValue(rows), AttrValue(layers), AttrValue(directions),
                             AttrValue(mode)};
  return *MakeRnnNetwork("rnn", {total, input}, hx, attrs);
}

bool Fits(const RnnNetwork& network) {
  return PlanRnn(network, Dtype::kFloat32, false).has_value();
}

TEST(DnnRnnTest, LengthsAreThoseOfTheSequences) {
  const absl::optional<RnnCall> call =
      PlanRnn(Network({4, 4, 2, 1, 0}, 3, 5, 2, 2, 1), Dtype::kFloat16, true);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->lengths, (std::vector<int>{4, 3, 2, 2}));
  EXPECT_EQ(call->dtype, Dtype::kFloat16);
  EXPECT_TRUE(call->gradient);
  EXPECT_EQ(call->network.num_steps(), 4);
  EXPECT_EQ(call->network.total_rows(), 11);
}

TEST(DnnRnnTest, LeavesWhatHasNoElements) {
  EXPECT_TRUE(Fits(Network({2, 1}, 3, 4)));
  EXPECT_FALSE(Fits(Network({2, 1}, 0, 4)));
  EXPECT_FALSE(Fits(Network({2, 1}, 3, 0)));
  EXPECT_FALSE(Fits(Network({0}, 3, 4)));
  // A sequence without steps.
  EXPECT_FALSE(Fits(Network({2, 1}, 3, 4, 1, 1, 0, 1)));
}

TEST(DnnRnnTest, LeavesWhatAnIntCannotCount) {
  constexpr int64_t kLarge = int64_t{1} << 31;
  EXPECT_FALSE(Fits(Network({1}, kLarge, 1)));
  EXPECT_FALSE(Fits(Network({1}, 1, kLarge - 1)));
  EXPECT_FALSE(Fits(Network({kLarge}, 1, 1)));
  EXPECT_FALSE(Fits(Network({1 << 21}, 1, 1)));
  // All the gates of a matrix of weights, or of the rows, are 2^31 numbers.
  EXPECT_TRUE(Fits(Network({1}, 1 << 14, 1 << 13)));
  EXPECT_FALSE(Fits(Network({1}, 1 << 14, 1 << 14)));
  EXPECT_FALSE(Fits(Network({1}, 1 << 14, 1 << 13, 2)));
  EXPECT_TRUE(Fits(Network({1 << 15}, 1, 1 << 12)));
  EXPECT_FALSE(Fits(Network({1 << 16}, 1, 1 << 12)));
}

TEST(DnnRnnTest, WorkMayTakeWhatTheSettingsAllowOrTheGatesAmountTo) {
  Settings settings;
  settings.max_workspace_size = 1000;
  const auto limit = [&](const RnnNetwork& network, Dtype dtype) {
    return RnnWorkspaceLimit(*PlanRnn(network, dtype, false), settings);
  };
  EXPECT_EQ(limit(Network({1}, 1, 1), Dtype::kFloat32), 1000);
  // Twice 3 rows of 4 gates of 5 numbers in 4 parts.
  EXPECT_EQ(limit(Network({2, 1}, 9, 5, 2, 2), Dtype::kFloat32), 2 * 3 * 4 * 5 * 4 * 4);
  EXPECT_EQ(limit(Network({2, 1}, 9, 5, 2, 2), Dtype::kFloat64), 2 * 3 * 4 * 5 * 4 * 8);
}

}  // namespace
}  // namespace chx::server::cuda
