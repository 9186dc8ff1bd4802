// Backward passes whose gradients the ranks of a group reduce meanwhile.
#include <algorithm>

#include "absl/strings/match.h"
#include "tests/session/reduced_models.h"

namespace chx::server {
namespace {

using absl::StrContains;

class GradientReducerTest : public RanksTest {};

TEST_F(GradientReducerTest, ParametersGetTheMean) {
  for (int size : {1, 2, 3}) {
    FormGroup(size);
    All([size](Rank& rank) {
      const Model model = ModelOf(rank, 5, static_cast<float>(rank.rank() + 1), {0, 1, 2, 3, 4});
      const command::ReduceBackward pass = PassOf(rank, size, model);
      rank.Do({pass});
      const float mean = static_cast<float>(size + 1) / 2;
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(GradOf(rank, model.w[i]), Values({mean * static_cast<float>(i + 1)}));
      }
      // It is added to what is there.
      rank.Do({pass});
      EXPECT_EQ(GradOf(rank, model.w[1]), Values({4 * mean}));
    });
  }
}

TEST_F(GradientReducerTest, WhatARankDoesNotUseIsZeros) {
  FormGroup(2);
  All([](Rank& rank) {
    const bool first = rank.rank() == 0;
    const Model model = ModelOf(rank, 4, 1, first ? std::vector<int>{0, 2} : std::vector<int>{1});
    rank.Do({PassOf(rank, 2, model)});
    EXPECT_EQ(GradOf(rank, model.w[0]), Values({0.5}));
    EXPECT_EQ(GradOf(rank, model.w[1]), Values({1}));
    EXPECT_EQ(GradOf(rank, model.w[2]), Values({1.5}));
    EXPECT_EQ(GradOf(rank, model.w[3]), Values({0}));
    // Nor does it need a loss.
    Model without = ModelOf(rank, 1, 3, {0});
    if (first) without.loss = 0;
    rank.Do({PassOf(rank, 2, without)});
    EXPECT_EQ(GradOf(rank, without.w[0]), Values({1.5}));
  });
}

TEST_F(GradientReducerTest, OtherReductionsAndDtypes) {
  FormGroup(2);
  All([](Rank& rank) {
    const Model model = ModelOf(rank, 1, 1.0F + static_cast<float>(rank.rank()) / 512, {0});
    command::ReduceBackward pass = PassOf(rank, 2, model);
    pass.reduction = 2;
    rank.Do({pass});
    EXPECT_EQ(GradOf(rank, model.w[0]), Values({1.0F + 1.0F / 512}));
    rank.Do({command::SetGrad{model.w[0]}});
    pass.dtype = static_cast<int64_t>(Dtype::kBfloat16);  // rounds to 8 bits
    rank.Do({pass});
    EXPECT_EQ(GradOf(rank, model.w[0]), Values({1}));
  });
}

TEST_F(GradientReducerTest, DelayedItGivesThoseOfThePassBefore) {
  FormGroup(2);
  All([](Rank& rank) {
    CheckDelayedPasses(rank, 4);
    // That of another reducer is of no concern.
    const Model apart = ModelOf(rank, 2, 7, {0, 1});
    for (float expected : {0.0F, 7.0F}) {
      command::ReduceBackward pass = PassOf(rank, 2, apart);
      pass.delayed = true;
      pass.reducer = 8;
      rank.Do({pass});
      EXPECT_EQ(GradOf(rank, apart.w[0]), Values({expected}));
    }
    // Others than those of the pass before.
    const Model other = ModelOf(rank, 3, 1, {0});
    command::ReduceBackward pass = PassOf(rank, 2, other);
    pass.delayed = true;
    pass.reducer = 8;
    const std::string error = ErrorOf(rank, pass);
    EXPECT_TRUE(StrContains(error, "expects parameters like those")) << error;
  });
  // What has been begun ends with the group.
  All([](Rank& rank) { rank.Do({command::LeaveGroup{1}}); });
}

TEST_F(GradientReducerTest, TheGraphMayHaveCollectives) {
  FormGroup(2);
  All([](Rank& rank) {
    CheckPassWithCollectives(rank);
    const Handle x = rank.New({1});
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {x})), Values({2}));
  });
}

TEST_F(GradientReducerTest, RanksThatDifferAllLearnHow) {
  FormGroup(2);
  All([](Rank& rank) {
    rank.set_line(absl::StrCat("train.py:", rank.rank() + 10));
    const Model model = ModelOf(rank, 1, 1, {0});
    rank.Do({command::DefineLocation{1, absl::StrCat("train.py:", rank.rank() + 10)}});
    command::ReduceBackward pass = PassOf(rank, 2, model);
    pass.reduction = rank.rank();
    const std::string error = ErrorOf(rank, pass);
    EXPECT_TRUE(StrContains(error, "reduction=sum) at rank 0 (train.py:10)")) << error;
    EXPECT_TRUE(StrContains(error, "reduction=mean) at rank 1 (train.py:11)")) << error;
  });
}

TEST_F(GradientReducerTest, ARankThatFailsOrDoesNotComeIsNamed) {
  UseTimeout(std::chrono::milliseconds(300));
  FormGroup(2);
  All([](Rank& rank) {
    const Model model = CheckPassThatFailsAtRank1(rank);
    EXPECT_EQ(*rank.Read(model.w[0]), Values({1}));
  });
  FormGroup(2);
  All([](Rank& rank) {
    if (rank.rank() == 1) return;
    const Model model = ModelOf(rank, 2, 1, {0, 1});
    const std::string error = ErrorOf(rank, PassOf(rank, 2, model));
    EXPECT_TRUE(StrContains(error, "rank 1 did not come to all_reduce within 300ms")) << error;
  });
  FormGroup(2);
  All([this](Rank& rank) {
    if (rank.rank() == 1) return;
    std::thread end([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ranks_[0]->End();
    });
    const Model model = ModelOf(rank, 2, 1, {0, 1});
    const std::string error = ErrorOf(rank, PassOf(rank, 2, model));
    EXPECT_FALSE(error.empty());
    end.join();
  });
}

TEST_F(GradientReducerTest, ACancelledPassBreaksTheGroup) {
  FormGroup(2);
  All([](Rank& rank) {
    const Model model = ModelOf(rank, 1, 1, {0});
    const command::ReduceBackward pass = PassOf(rank, 2, model);
    if (rank.rank() == 1) {
      rank.session().stop().Cancel(5);
      rank.set_batch(5);
      rank.Do({pass});
      return;
    }
    const std::string error = ErrorOf(rank, pass);
    EXPECT_TRUE(StrContains(error, "rank 1 has not finished a backward pass")) << error;
  });
}

TEST_F(GradientReducerTest, WhatClientsNeverSend) {
  FormGroup(1);
  Rank& rank = *ranks_[0];
  const Model model = ModelOf(rank, 2, 1, {0, 1});
  const command::ReduceBackward valid = PassOf(rank, 1, model);
  const auto expect = [&](const char* text, const command::ReduceBackward& pass) {
    const std::string error = ErrorOf(rank, pass);
    EXPECT_TRUE(StrContains(error, text)) << error;
    rank.Do({command::LeaveGroup{1}});
    EXPECT_EQ(rank.Join(1), absl::OkStatus());
  };
  command::ReduceBackward pass = valid;
  pass.parameters.push_back(model.w[0]);
  expect("expects different parameters", pass);
  pass = valid;
  pass.parameters = {rank.New({1})};
  expect("expects parameters that require a gradient", pass);
  pass = valid;
  pass.parameters = {123456};
  expect("123456", pass);
  for (int64_t dtype : {int64_t{-2}, int64_t{1000}, static_cast<int64_t>(Dtype::kInt32)}) {
    pass = valid;
    pass.dtype = dtype;
    expect("expects a float dtype", pass);
  }
  for (int64_t reduction : {-1, 5}) {
    pass = valid;
    pass.reduction = reduction;
    expect("expects a reduction in [0, 5)", pass);
  }
  pass = valid;
  pass.bucket_bytes = 0;
  expect("expects buckets of at least 1 byte", pass);
  pass = valid;
  pass.group = 7;
  expect("expects a process group of this session, got number 7", pass);
  pass = valid;
  pass.size = 2;
  expect("expects rank 0 of 1", pass);
  pass = valid;
  pass.mode = 9;
  expect("expects a defined mode", pass);
  pass = valid;
  pass.bucket_bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ErrorOf(rank, pass), "");
  EXPECT_EQ(GradOf(rank, model.w[1]), Values({2}));
  pass.parameters.clear();
  expect("expects parameters to reduce", pass);
  pass = valid;
  pass.reduction = 4;
  pass.loss_scale = 2;
  expect("expects a loss scale of 1", pass);
  // Before the operator's attributes are checked.
  command::ApplyOp reduce;
  reduce.op = static_cast<uint16_t>(OpRegistry::Global().Find("all_reduce")->id + 1);
  reduce.inputs.emplace_back(model.w[0]);
  reduce.results.push_back(rank.NewHandle());
  rank.Do({reduce, command::Release{{model.w[0]}}});
}

}  // namespace
}  // namespace chx::server
