// Collectives by NCCL between GPUs of several daemons: on fakes.
#include "absl/strings/match.h"
#include "tests/cuda/nccl_fixture.h"
#include "tests/session/daemons_fixture.h"

namespace chx::server::cuda {
namespace {

using absl::StrContains;

class NcclDaemonsTest : public OnGpus<DaemonsTest> {
 protected:
  NcclDaemonsTest() { by_devices_ = true; }

  // Rank i of group 1 is a session of daemon places[i], on a GPU of its own.
  void FormAcrossGpus(const std::vector<int>& places,
                      std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    MakeDaemons(places, timeout);
    for (size_t i = 0; i < places.size(); ++i) ranks_[i]->set_device(static_cast<uint16_t>(i));
    All([](Rank& rank) { EXPECT_EQ(rank.Join(1), absl::OkStatus()); });
  }
};

TEST_F(NcclDaemonsTest, EachGivesWhatItSays) {
  for (const std::vector<int>& places :
       {std::vector<int>{0, 1}, {0, 1, 1}, {0, 1, 0, 1}, {0, 1, 2, 1}}) {
    const auto size = static_cast<int>(places.size());
    fake_.parts = 0;
    FormAcrossGpus(places);
    All([size](Rank& rank) { CheckEachCollective(rank, size); });
    EXPECT_EQ(fake_.parts, 10 * size);
    EXPECT_EQ(fake_.communicators, size);
    ExpectMeans(kBuckets * size);
  }
}

TEST_F(NcclDaemonsTest, OnlyWhereAllOperatorsSaySo) {
  by_devices_ = false;
  FormAcrossGpus({0, 1});
  ExpectSums(0);
  by_devices_ = true;
  MakeDaemons({0});
  by_devices_ = false;
  AddDaemon(std::chrono::seconds(30));
  ranks_.clear();
  for (int i = 0; i < 2; ++i) {
    ranks_.push_back(std::make_unique<Rank>(
        &devices_, daemons_[static_cast<size_t>(i)]->groups.get(), limits_, "lab", i, 2));
    ranks_.back()->set_address(daemons_[0]->peers->address());
    ranks_.back()->set_device(static_cast<uint16_t>(i));
  }
  All([](Rank& rank) { EXPECT_EQ(rank.Join(1), absl::OkStatus()); });
  ExpectSums(0);
  ExpectSums(0);
  EXPECT_EQ(fake_.communicators, 0);
}

TEST_F(NcclDaemonsTest, ArraysThatAreElsewherePassThroughTheHost) {
  FormAcrossGpus({0, 1, 1});
  ranks_[2]->set_device(kHost);
  ExpectSums(0);
  ranks_[2]->set_device(2);
  ExpectSums(3);
  ranks_[0]->set_device(3);
  ExpectSums(0);
  ExpectMeans(0);
  ranks_[0]->set_device(0);
  ExpectSums(3);
}

TEST_F(NcclDaemonsTest, RanksOnOneGpuPassThroughTheHost) {
  FormAcrossGpus({0, 1});
  ranks_[1]->set_device(0);
  ExpectSums(0);
  ExpectSums(0);
  EXPECT_EQ(fake_.communicators, 0);
  ranks_[1]->set_device(1);
  ExpectSums(2);
}

TEST_F(NcclDaemonsTest, WithoutACommunicatorArraysPassThroughTheHost) {
  fake_.next_init = 1;
  FormAcrossGpus({0, 1});
  ExpectSums(0);
  ExpectSums(0);
  EXPECT_EQ(fake_.communicators, 0);
}

TEST_F(NcclDaemonsTest, RanksThatDifferAllLearnHow) {
  FormAcrossGpus({0, 1});
  All([](Rank& rank) {
    rank.set_line(absl::StrCat("train.py:", rank.rank() + 10));
    const Handle x = rank.New(rank.rank() == 1 ? Values{1, 2} : Values{1});
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(
        StrContains(error, "all_reduce(float32(2,), reduction=sum) at rank 1 (train.py:11)"))
        << error;
  });
  ExpectSums(2);
}

TEST_F(NcclDaemonsTest, ARankThatIsStoppedEndsWhatHasBegun) {
  for (const bool connected : {false, true}) {
    FormAcrossGpus({0, 1});
    if (connected) ExpectSums(2);
    StopLastRank();
  }
  FormAcrossGpus({0, 1});
  ExpectSums(2);
}

TEST_F(NcclDaemonsTest, WhatDoesNotEndEndsInTime) {
  FormAcrossGpus({0, 1}, std::chrono::milliseconds(500));
  ExpectSums(2);
  fake_.stalls = true;
  All([](Rank& rank) {
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {rank.New({1})}));
    EXPECT_TRUE(StrContains(error, "within 500ms") || StrContains(error, "cut in all_reduce") ||
                StrContains(error, "a fake result"))
        << error;
  });
  EXPECT_EQ(fake_.communicators, 0);
}

}  // namespace
}  // namespace chx::server::cuda
