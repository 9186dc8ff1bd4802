// Process groups whose ranks are sessions of several daemons, over real connections.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/session/daemons_fixture.h"
#include "tests/session/reduced_models.h"

namespace chx::server {
namespace {

using absl::StrContains;
using std::chrono::milliseconds;

class CollectivesDaemonsTest : public DaemonsTest {};

TEST_F(CollectivesDaemonsTest, EachGivesWhatItSays) {
  for (const std::vector<int>& places :
       {std::vector<int>{0}, {0, 0}, {0, 1}, {1, 0}, {0, 1, 2}, {0, 0, 1}, {1, 0, 1, 0}}) {
    FormAcross(places);
    All([size = static_cast<int>(places.size())](Rank& rank) { CheckEachCollective(rank, size); });
  }
}

// More than a segment of Gloo's and more than the scratch of a reduction to one rank.
TEST_F(CollectivesDaemonsTest, LargeArraysHaveTheSameBitsEverywhere) {
  constexpr int kElements = 3000001;
  FormAcross({0, 1, 1});
  std::vector<Values> results(3);
  All([&](Rank& rank) {
    Values given(kElements);
    for (int i = 0; i < kElements; ++i) {
      given[i] = 1.0F / static_cast<float>(i % 1000 + rank.rank() + 1);
    }
    const Handle x = rank.New(given);
    results[rank.rank()] = *rank.Read(rank.Call("all_reduce", 1, {x}));
    const OpDef& reduce = *OpRegistry::Global().Find("reduce");
    std::vector<int64_t> to_one(reduce.attrs.size() - 1, 0);
    to_one[reduce.AttrIndex("root") - 1] = 1;
    const Values reduced = *rank.Read(rank.Call("reduce", 1, {x}, to_one));
    ASSERT_EQ(reduced.size(), rank.rank() == 1 ? kElements : 0);
    const Values& all = results[rank.rank()];
    for (size_t i = 0; i < reduced.size(); ++i) ASSERT_NEAR(reduced[i], all[i], 1e-6);
  });
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_TRUE(results[0] == results[2]);
  for (int i = 0; i < kElements; i += 997) {
    double expected = 0;
    for (int rank = 0; rank < 3; ++rank) expected += 1.0 / (i % 1000 + rank + 1);
    ASSERT_NEAR(results[0][i], expected, 1e-6);
  }
}

TEST_F(CollectivesDaemonsTest, RanksThatDifferAllLearnHow) {
  FormAcross({0, 0, 1});
  All([](Rank& rank) {
    rank.set_line(absl::StrCat("train.py:", rank.rank() + 10));
    const Handle x = rank.New(rank.rank() == 2 ? Values{1, 2} : Values{1});
    const std::string shapes = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(StrContains(shapes,
                            "all_reduce(float32(1,), reduction=sum) at rank 0 (train.py:10) and "
                            "all_reduce(float32(2,), reduction=sum) at rank 2 (train.py:12)"))
        << shapes;
    const Handle y = rank.New({1});
    // Of one daemon's ranks.
    const std::string roots = rank.Error(rank.Call("broadcast", 1, {y}, {rank.rank() == 1}));
    EXPECT_TRUE(StrContains(roots, "root=1) at rank 1")) << roots;
    Handle z = rank.New({1});
    if (rank.rank() == 2) z = rank.Call("matmul", 0, {z, rank.New({1, 2})});  // wrong shapes
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {z}));
    EXPECT_TRUE(StrContains(error, "[matmul]")) << error;
    // They are still in step.
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {y})), Values({3}));
  });
}

// Few elements, which go with the call; and many, in chunks, segments and rounds of a ring.
TEST_F(CollectivesDaemonsTest, ReductionsOfAnySize) {
  for (const std::vector<int>& places :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 1}, {0, 1, 2}, {2, 0, 1, 3}, {0, 1, 0, 1}}) {
    FormAcross(places);
    const auto size = static_cast<float>(places.size());
    for (const int count : {1, 5, 16000, 16384, 16385, 100003, 700001, 2500007}) {
      std::vector<Values> results(places.size());
      All([&](Rank& rank) {
        Values values(static_cast<size_t>(count));
        for (int i = 0; i < count; ++i) {
          values[i] = static_cast<float>(i % 1009 + rank.rank()) / 3;
        }
        const Handle x = rank.New(values);
        const Handle small = rank.New({At(rank.rank(), 0)});
        const Handle first = rank.Call("all_reduce", 1, {x, small, x}, {1});
        const absl::StatusOr<Values> sum = rank.Read(first);
        ASSERT_EQ(sum.status(), absl::OkStatus());
        ASSERT_EQ(sum->size(), values.size());
        for (int i = 0; i < count; ++i) {
          ASSERT_NEAR((*sum)[i], (static_cast<float>(i % 1009) + (size - 1) / 2) / 3, 1e-3) << i;
        }
        EXPECT_EQ(*rank.Read(x), values);
        EXPECT_EQ(*rank.Read(first + 1), Values({10 * (size + 1) / 2}));
        // In another order, if it did not go with the call.
        EXPECT_NEAR(rank.Read(first + 2)->back(), sum->back(), 1e-3);
        results[rank.rank()] = *sum;
      });
      for (const Values& result : results) EXPECT_TRUE(result == results[0]) << "the same bits";
    }
  }
}

TEST_F(CollectivesDaemonsTest, GradientsAreReducedWhileTheyAreComputed) {
  FormAcross({0, 1, 1});
  All([](Rank& rank) {
    for (int step = 0; step < 5; ++step) {
      const Model model = ModelOf(rank, 4, static_cast<float>(rank.rank() + 1), {0, 1, 2, 3});
      rank.Do({PassOf(rank, 3, model)});
      EXPECT_EQ(GradOf(rank, model.w[0]), Values({2}));
      EXPECT_EQ(GradOf(rank, model.w[3]), Values({8}));
    }
  });
}

TEST_F(CollectivesDaemonsTest, ARankThatDoesNotComeIsNamed) {
  for (const int absent : {0, 1, 2}) {
    FormAcross({0, 1, 1}, milliseconds(400));
    All([absent](Rank& rank) {
      if (rank.rank() == absent) return;
      const Handle x = rank.New({1});
      const std::string error = rank.Error(rank.Call("all_gather", 1, {x}));
      EXPECT_TRUE(
          StrContains(error, absl::StrCat("rank ", absent, " did not come to all_gather")) ||
          // Of a daemon whose other rank has come nobody elsewhere knows.
          (absent != 0 && StrContains(error, "ranks 1, 2 did not come to all_gather")))
          << error;
      EXPECT_EQ(*rank.Read(x), Values({1}));
    });
  }
}

TEST_F(CollectivesDaemonsTest, WhoLeavesIsNamedAtOnceAndTheOthersGoOn) {
  FormAcross({0, 1, 1});
  All([](Rank& rank) {
    const Handle x = rank.New({1});
    if (rank.rank() == 1) return rank.Do({command::LeaveGroup{1}});
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(StrContains(error, "rank 1 has left")) << error;
    EXPECT_TRUE(StrContains(error, "form it again")) << error;
  });
  ranks_.erase(ranks_.begin() + 1);
  std::vector<std::unique_ptr<Rank>> survivors;
  for (int i = 0; i < 2; ++i) {
    survivors.push_back(
        std::make_unique<Rank>(&devices_, daemons_[i]->groups.get(), limits_, "lab", i, 2));
    survivors.back()->set_address(daemons_[0]->peers->address());
  }
  ranks_ = std::move(survivors);
  All([](Rank& rank) {
    EXPECT_EQ(rank.Join(1), absl::OkStatus());
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {rank.New({2})})), Values({4}));
  });
}

// By turns, by one that is slower than the word of it.
TEST_F(CollectivesDaemonsTest, WhoLeavesTakesNoCollectiveFromTheOthers) {
  for (int round = 0; round < 40; ++round) {
    FormAcross({0, 1, 2});
    All([](Rank& rank) {
      for (int call = 0; call < 3; ++call) {
        const absl::StatusOr<Values> sum = rank.Read(rank.Call("all_reduce", 1, {rank.New({1})}));
        ASSERT_EQ(sum.status(), absl::OkStatus());
        EXPECT_EQ(*sum, Values({3}));
      }
      rank.Do({command::LeaveGroup{1}});
    });
  }
}

TEST_F(CollectivesDaemonsTest, AStoppedSessionEndsTheWaitOfAll) {
  FormAcross({0, 1, 1});
  std::thread end([this] {
    absl::SleepFor(absl::Milliseconds(200));
    ranks_[2]->End();
  });
  const absl::Time began = absl::Now();
  All([](Rank& rank) {
    if (rank.rank() == 0) return absl::SleepFor(absl::Milliseconds(400));
    rank.Error(rank.Call("all_reduce", 1, {rank.New({1})}));
  });
  end.join();
  EXPECT_LT(absl::Now() - began, absl::Seconds(10));
  const std::string error =
      ranks_[0]->Error(ranks_[0]->Call("all_reduce", 1, {ranks_[0]->New({1})}));
  EXPECT_TRUE(StrContains(error, "was stopped") || StrContains(error, "has left")) << error;
}

TEST_F(CollectivesDaemonsTest, Messages) {
  FormAcross({0, 1, 1});
  All([](Rank& rank) {
    const int self = rank.rank();
    const int next = (self + 1) % 3;
    const int before = (self + 2) % 3;
    // All send first, with tags that cannot be told from sizes, and more than is sent at once.
    const Handle x = rank.New({At(self, 0), At(self, 1)});
    const Handle large = rank.New(Values(2000000, At(self, 2)));
    rank.Call("send", 1, {x}, {next, 7});
    rank.Call("send", 1, {large}, {next, 7});
    rank.Call("send", 1, {rank.New({At(self, 3)})}, {next, -7});
    EXPECT_EQ(*rank.Read(rank.Call("recv", 1, {rank.New({0})}, {before, -7})),
              Values({At(before, 3)}));
    EXPECT_EQ(*rank.Read(rank.Call("recv", 1, {x}, {before, 7})),
              Values({At(before, 0), At(before, 1)}));
    // Of another shape: it is an error, and the next one is received.
    const std::string error = rank.Error(rank.Call("recv", 1, {x}, {before, 7}));
    EXPECT_TRUE(StrContains(error, "float32(2000000,)")) << error;
    EXPECT_TRUE(StrContains(error, absl::StrCat("sent at rank ", before))) << error;
    rank.Call("send", 1, {x}, {next, 7});
    EXPECT_EQ(*rank.Read(rank.Call("recv", 1, {x}, {before, 7})),
              Values({At(before, 0), At(before, 1)}));
    // An error is sent as what it is.
    const Handle wrong = rank.Call("matmul", 0, {x, rank.New({1, 2, 3})});
    rank.Call("send", 1, {wrong}, {next, 1});
    EXPECT_TRUE(StrContains(rank.Error(rank.Call("recv", 1, {x}, {before, 1})), "[matmul]"));
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {rank.New({1})})), Values({3}));
  });
}

// Tags beyond 2^38 share places. Whoever mixes them ends its group, and nothing else.
TEST_F(CollectivesDaemonsTest, TagsThatCannotBeToldApart) {
  constexpr int64_t kTag = int64_t{1} << 38;
  FormAcross({0, 1});
  ranks_[0]->Call("send", 1, {ranks_[0]->New(Values(2000000, 1))}, {1, kTag});
  ranks_[0]->Call("send", 1, {ranks_[0]->New({5})}, {1, 2 * kTag});
  Rank& rank = *ranks_[1];
  for (int i = 0; i < 2; ++i) {
    const std::string error = rank.Error(rank.Call("recv", 1, {rank.New({0})}, {0, 2 * kTag}));
    EXPECT_TRUE(StrContains(error, "cannot be told from tag 549755813888")) << error;
  }
  const std::string there =
      ranks_[0]->Error(ranks_[0]->Call("all_reduce", 1, {ranks_[0]->New({1})}));
  EXPECT_TRUE(StrContains(there, "form it again")) << there;
}

TEST_F(CollectivesDaemonsTest, WhatWasSentIsReceivedAfterItsSenderHasLeft) {
  FormAcross({0, 1});
  ranks_[0]->Call("send", 1, {ranks_[0]->New({5})}, {1, 0});
  ranks_[0]->Do({command::LeaveGroup{1}});
  absl::SleepFor(absl::Milliseconds(100));
  Rank& rank = *ranks_[1];
  EXPECT_EQ(*rank.Read(rank.Call("recv", 1, {rank.New({0})}, {0, 0})), Values({5}));
  const std::string error = rank.Error(rank.Call("recv", 1, {rank.New({0})}, {0, 0}));
  EXPECT_TRUE(StrContains(error, "rank 0 has left")) << error;
}

TEST_F(CollectivesDaemonsTest, WrongGroupsFailAtAllRanks) {
  MakeDaemons({0, 1, 1}, milliseconds(500));
  All([](Rank& rank) {
    const absl::Status missing = rank.rank() == 1 ? absl::OkStatus() : rank.Join(1);
    if (rank.rank() == 1) return;
    EXPECT_TRUE(StrContains(missing.message(), "rank 1 did not come to process group 'g' of 3"))
        << missing;
  });
  All([](Rank& rank) {
    command::JoinGroup join;
    join.request_id = 7;
    join.group = 2;
    join.rank = rank.rank() == 2 ? 0 : rank.rank();  // twice
    join.size = 3;
    join.name = "twice";
    const std::string address = "127.0.0.1:1";
    join.address = address;
    const absl::Status nobody = rank.Join(join);
    EXPECT_TRUE(StrContains(nobody.message(), "cannot meet other daemons at 127.0.0.1:1"))
        << nobody;
  });
  const std::string place = daemons_[0]->peers->address();
  All([&](Rank& rank) {
    command::JoinGroup join;
    join.request_id = 7;
    join.group = 3;
    join.rank = rank.rank() == 2 ? 0 : rank.rank();  // twice
    join.size = 3;
    join.name = "twice";
    join.address = place;
    const absl::Status twice = rank.Join(join);
    EXPECT_TRUE(StrContains(twice.message(), "got two for rank 0") ||
                StrContains(twice.message(), "did not come"))
        << twice;
    join.address = "metadata.internal:80";
    const absl::Status refused = rank.Join(join);
    EXPECT_TRUE(StrContains(refused.message(), "--peers")) << refused;
  });
}

TEST_F(CollectivesDaemonsTest, ADaemonWithAnotherSecretIsNone) {
  AddDaemon(milliseconds(1000), "cluster");
  AddDaemon(milliseconds(1000), "elsewhere");
  Rank rank(&devices_, daemons_[1]->groups.get(), limits_, "lab", 0, 1);
  rank.set_address(daemons_[0]->peers->address());
  const absl::Status refused = rank.Join(1);
  EXPECT_TRUE(StrContains(refused.message(), "has another secret")) << refused;
}

}  // namespace
}  // namespace chx::server
