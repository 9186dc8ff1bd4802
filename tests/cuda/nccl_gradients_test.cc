// Gradients that GPUs reduce by NCCL during a backward pass: on fakes, what the daemon does.
#include "absl/strings/match.h"
#include "tests/cuda/nccl_fixture.h"

namespace chx::server::cuda {
namespace {

using absl::StrContains;

class NcclGradientsTest : public GpuRanksTest {};

TEST_F(NcclGradientsTest, ParametersGetTheMean) {
  for (const int size : {1, 2, 3}) {
    FormOnGpus(size);
    const int orders = TheFakeCuda().orders;
    ExpectMeans(size * kBuckets);
    // Each bucket comes after the pass's kernels, and what uses it after the bucket.
    EXPECT_EQ(TheFakeCuda().orders - orders, 2 * size * kBuckets);
    // A communicator's collectives follow one another, on whatever streams.
    const int before = TheFakeCuda().orders;
    ExpectSums(size);
    EXPECT_EQ(TheFakeCuda().orders - before, size);
    ExpectMeans(size * kBuckets);
    EXPECT_EQ(TheFakeCuda().orders - before, 2 * size + 2 * size * kBuckets);
  }
}

TEST_F(NcclGradientsTest, ArraysThatAreElsewherePassThroughTheHost) {
  FormOnGpus(2);
  ranks_[1]->set_device(kHost);
  ExpectMeans(0);
  ranks_[0]->set_device(kHost);
  ranks_[1]->set_device(1);
  ExpectMeans(0);
  ranks_[0]->set_device(0);
  ExpectMeans(2 * kBuckets);
  ranks_[1]->set_device(2);
  ExpectMeans(0);
  FormOn({3, 3});
  ExpectMeans(0);
}

TEST_F(NcclGradientsTest, OfAnotherDtypeOrAPassBefore) {
  FormOnGpus(2);
  All([](Rank& rank) {
    const Model model = ModelOf(rank, 1, 1.0F + static_cast<float>(rank.rank()) / 512, {0});
    command::ReduceBackward pass = PassOf(rank, 2, model);
    pass.dtype = static_cast<int64_t>(Dtype::kBfloat16);  // rounds to 8 bits
    rank.Do({pass});
    EXPECT_EQ(GradOf(rank, model.w[0]), Values({1}));
    CheckDelayedPasses(rank, 3);
    // After what is under way.
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {rank.New({1})})), Values({2}));
  });
  EXPECT_EQ(fake_.parts, 2 * 5);
}

TEST_F(NcclGradientsTest, TheGraphMayHaveCollectives) {
  FormOnGpus(2);
  All([](Rank& rank) { CheckPassWithCollectives(rank); });
  EXPECT_EQ(fake_.parts, 2 * 4);  // the sum, its gradient and two buckets
}

// Streams go from one group to the next.
TEST_F(NcclGradientsTest, GroupsInTurn) {
  FormOnGpus(2);
  for (int64_t group = 2; group <= 7; ++group) {
    All([group](Rank& rank) {
      EXPECT_EQ(rank.Join(group, absl::StrCat("g", group)), absl::OkStatus());
      const Model model = ModelOf(rank, 2, static_cast<float>(group), {0, 1});
      command::ReduceBackward pass = PassOf(rank, 2, model);
      pass.group = group;
      rank.Do({pass});
      EXPECT_EQ(GradOf(rank, model.w[0]), Values({static_cast<float>(group)}));
      if (group % 2 == 0) rank.Do({command::LeaveGroup{group}});
    });
  }
  EXPECT_EQ(fake_.parts, 2 * 6);
}

// In a session, reductions of only so many groups have streams of their own at a time.
TEST_F(NcclGradientsTest, ManyGroups) {
  FormOnGpus(2);
  All([](Rank& rank) {
    constexpr int64_t kGroups = 6;
    for (int64_t group = 1; group <= kGroups; ++group) {
      if (group > 1) {
        EXPECT_EQ(rank.Join(group, absl::StrCat("g", group)), absl::OkStatus());
      }
      const Model model = ModelOf(rank, 2, static_cast<float>(group), {0, 1});
      command::ReduceBackward pass = PassOf(rank, 2, model);
      pass.group = group;
      pass.delayed = true;  // all are under way at the same time
      rank.Do({pass, pass});
      EXPECT_EQ(GradOf(rank, model.w[0]), Values({static_cast<float>(group)}));
    }
    for (int64_t group = 1; group <= kGroups; ++group) {
      EXPECT_EQ(*rank.Read(rank.Call("all_reduce", group, {rank.New({1})})), Values({2}));
    }
  });
  EXPECT_EQ(fake_.parts, 2 * (2 * 4 + 6));
}

TEST_F(NcclGradientsTest, ARankThatIsStoppedEndsThePassOfAll) {
  FormOnGpus(3);
  ExpectMeans(3 * kBuckets);
  fake_.stalls = true;
  std::thread ending([this] {
    absl::SleepFor(absl::Milliseconds(200));
    ranks_.back()->End();
  });
  All([](Rank& rank) {
    const Model model = ModelOf(rank, 5, 1, {0, 1, 2, 3, 4});
    const std::string error = ErrorOf(rank, PassOf(rank, 3, model));
    if (rank.rank() == 2) return;
    EXPECT_TRUE(StrContains(error, "rank 2 was stopped")) << error;
    EXPECT_EQ(*rank.Read(model.w[0]), Values({1}));
  });
  ending.join();
  fake_.stalls = false;
  FormOnGpus(2);
  ExpectMeans(2 * kBuckets);
}

TEST_F(NcclGradientsTest, AnErrorOfNcclOrOfARankBreaksTheGroup) {
  FormOnGpus(2);
  ExpectMeans(2 * kBuckets);
  fake_.next_collective = 1;
  All([](Rank& rank) {
    const Model model = ModelOf(rank, 5, 1, {0, 1, 2, 3, 4});
    const std::string error = ErrorOf(rank, PassOf(rank, 2, model));
    EXPECT_TRUE(StrContains(error, "has failed: cuda: all_reduce: a fake result")) << error;
  });
  FormOnGpus(2);
  All([](Rank& rank) { CheckPassThatFailsAtRank1(rank); });
  FormOnGpus(2);
  ExpectMeans(2 * kBuckets);
}

}  // namespace
}  // namespace chx::server::cuda
