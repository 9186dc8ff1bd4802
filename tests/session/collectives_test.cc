// Collectives between sessions of one daemon: what they give, and what becomes of them when a rank
// does something else, or nothing.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/session/ranks_fixture.h"

namespace chx::server {
namespace {

using absl::StrContains;

class CollectivesTest : public RanksTest {};

TEST_F(CollectivesTest, EachGivesWhatItSays) {
  for (int size : {1, 2, 3, 4}) {
    FormGroup(size);
    All([size](Rank& rank) { CheckEachCollective(rank, size); });
  }
}

// Enough for all ranks to work on, with one turn to compute between them.
TEST_F(CollectivesTest, LargeArraysAreReducedInTheOrderOfRanks) {
  constexpr int kSize = 3;
  constexpr int kElements = 300000;
  FormGroup(kSize);
  std::vector<Values> given(kSize, Values(kElements));
  Values expected(kElements, 0);
  for (int i = 0; i < kElements; ++i) {
    for (int rank = 0; rank < kSize; ++rank) {
      given[rank][i] = 1.0F / static_cast<float>(i + rank + 1);
      expected[i] = rank == 0 ? given[rank][i] : expected[i] + given[rank][i];
    }
  }
  All([&](Rank& rank) {
    const Handle x = rank.New(given[rank.rank()]);
    EXPECT_TRUE(*rank.Read(rank.Call("all_reduce", 1, {x})) == expected);
  });
}

TEST_F(CollectivesTest, RanksThatDifferAllLearnHow) {
  FormGroup(3);
  All([](Rank& rank) {
    rank.set_line(absl::StrCat("train.py:", rank.rank() + 10));
    const Handle x = rank.New(rank.rank() == 2 ? Values{1, 2} : Values{1});
    const std::string shapes = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(StrContains(shapes,
                            "all_reduce(float32(1,), reduction=sum) at rank 0 "
                            "(train.py:10)"))
        << shapes;
    EXPECT_TRUE(StrContains(shapes,
                            "all_reduce(float32(2,), reduction=sum) at rank 2 "
                            "(train.py:12)"))
        << shapes;
    EXPECT_FALSE(StrContains(shapes, "rank 1")) << shapes;
    const Handle y = rank.New({1});
    const std::string operators =
        rank.Error(rank.Call(rank.rank() == 1 ? "all_gather" : "all_reduce", 1, {y}));
    EXPECT_TRUE(StrContains(operators, "all_gather(float32(1,)) at rank 1 (train.py:11)"))
        << operators;
    const std::string attributes = rank.Error(rank.Call("all_reduce", 1, {y}, {rank.rank() == 1}));
    EXPECT_TRUE(StrContains(attributes, "reduction=mean) at rank 1")) << attributes;
    const std::string roots = rank.Error(rank.Call("broadcast", 1, {y}, {rank.rank() == 1}));
    EXPECT_TRUE(StrContains(roots, "root=1) at rank 1")) << roots;
    const std::string lists = rank.Error(rank.rank() == 0 ? rank.Call("all_reduce", 1, {y, y})
                                                          : rank.Call("all_reduce", 1, {y}));
    EXPECT_TRUE(StrContains(lists, "expects the same call")) << lists;
    // They are still in step.
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {y})), Values({3}));
  });
}

TEST_F(CollectivesTest, AnErrorOfOneRankIsAnErrorOfAll) {
  FormGroup(2);
  All([](Rank& rank) {
    Handle x = rank.New({1});
    if (rank.rank() == 1) x = rank.Call("matmul", 0, {x, rank.New({1, 2})});  // wrong shapes
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {x}));
    EXPECT_TRUE(StrContains(error, "[matmul]")) << error;
    EXPECT_EQ(StrContains(error, "at rank 1"), rank.rank() == 0) << error;
    // Arguments that a client never gives.
    const Handle y = rank.New({1});
    const std::string root = rank.Error(rank.Call("broadcast", 1, {y}, {rank.rank() == 0 ? 0 : 9}));
    EXPECT_TRUE(StrContains(root, "expects a root in [0, 2)")) << root;
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {y})), Values({2}));
  });
}

TEST_F(CollectivesTest, ARankThatDoesNotComeIsNamed) {
  UseTimeout(std::chrono::milliseconds(200));
  FormGroup(3);
  All([](Rank& rank) {
    if (rank.rank() == 1) return;
    const Handle x = rank.New({1});
    const Handle y = rank.Call("all_gather", 1, {x});
    EXPECT_TRUE(StrContains(rank.Error(y), "rank 1 did not come to all_gather within 200ms"))
        << rank.Error(y);
    EXPECT_EQ(*rank.Read(x), Values({1}));
  });
  All([](Rank& rank) {
    const Handle x = rank.New({1});
    const std::string late = rank.Error(rank.Call("all_gather", 1, {x}));
    EXPECT_TRUE(StrContains(late, "rank 1 did not come")) << late;
    rank.Do({command::LeaveGroup{1}});
    EXPECT_EQ(rank.Join(2), absl::OkStatus());
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 2, {x})), Values({3}));
  });
}

TEST_F(CollectivesTest, ARankThatEndsIsNamed) {
  FormGroup(3);
  // While it waits itself.
  std::thread ending([this] {
    absl::SleepFor(absl::Milliseconds(100));
    ranks_[2]->End();
  });
  All([](Rank& rank) {
    if (rank.rank() == 1) return;
    const Handle x = rank.New({1});
    const Handle y = rank.Call("all_reduce", 1, {x});
    if (rank.rank() == 2) return;
    EXPECT_TRUE(StrContains(rank.Error(y), "rank 2 was stopped in all_reduce")) << rank.Error(y);
  });
  ending.join();
  // And its memory with it.
  FormGroup(2);
  std::thread leaving([this] {
    absl::SleepFor(absl::Milliseconds(50));
    ranks_[1]->Do({command::LeaveGroup{1}});
  });
  const Handle y = ranks_[0]->Call("all_reduce", 1, {ranks_[0]->New({1})});
  leaving.join();
  EXPECT_TRUE(StrContains(ranks_[0]->Error(y), "rank 1 has left")) << ranks_[0]->Error(y);
  FormGroup(2);
  ranks_.pop_back();
  const Handle z = ranks_[0]->Call("all_reduce", 1, {ranks_[0]->New({1})});
  EXPECT_TRUE(StrContains(ranks_[0]->Error(z), "rank 1 has left")) << ranks_[0]->Error(z);
}

TEST_F(CollectivesTest, WhatIsCancelledBreaksTheGroup) {
  FormGroup(2);
  std::thread cancelling([this] {
    absl::SleepFor(absl::Milliseconds(100));
    ranks_[0]->session().stop().Cancel(1);
    groups_->WakeStopped();
  });
  Rank& rank = *ranks_[0];
  const Handle x = rank.New({1});
  rank.set_batch(1);
  const Handle y = rank.Call("all_reduce", 1, {x});
  const Handle z = rank.Call("all_reduce", 1, {x});  // not run at all
  rank.set_batch(2);
  cancelling.join();
  EXPECT_TRUE(StrContains(rank.Error(y), "was cancelled")) << rank.Error(y);
  EXPECT_TRUE(StrContains(rank.Error(z), "was cancelled")) << rank.Error(z);
  Rank& other = *ranks_[1];
  const Handle late = other.Call("all_reduce", 1, {other.New({1})});
  EXPECT_TRUE(StrContains(other.Error(late), "rank 0 was stopped")) << other.Error(late);
}

// One turn to compute, and one rank that waits: the others have it.
TEST_F(CollectivesTest, WhoWaitsLeavesOthersItsTurn) {
  FormGroup(2);
  Rank& rank = *ranks_[0];
  const Handle x = rank.New({1});
  Handle y = 0;
  std::thread waiting([&] { y = rank.Call("all_reduce", 1, {x}); });
  while (!rank.session().stop().running()) absl::SleepFor(absl::Milliseconds(1));
  Rank& other = *ranks_[1];
  Handle sum = other.New({1});
  for (int i = 0; i < 100; ++i) sum = other.Call("add", 0, {sum, sum});
  EXPECT_TRUE(other.Read(sum).ok());
  EXPECT_TRUE(rank.session().stop().running());
  other.Call("all_reduce", 1, {other.New({2})});
  waiting.join();
  EXPECT_EQ(*rank.Read(y), Values({3}));
}

TEST_F(CollectivesTest, GroupsFormWhereAllRanksAgree) {
  UseTimeout(std::chrono::milliseconds(300));
  const auto join = [this](int rank, int size, const std::string& secret = "",
                           const std::string& tenant = "lab") {
    return NewRank(rank, size, tenant)->Join(1, "g", secret).ToString();
  };
  const auto both = [](const std::function<std::string()>& first,
                       const std::function<std::string()>& second) {
    std::pair<std::string, std::string> errors;
    std::thread other([&] { errors.second = second(); });
    errors.first = first();
    other.join();
    return errors;
  };
  const auto sizes = both([&] { return join(0, 2); }, [&] { return join(1, 3); });
  EXPECT_TRUE(StrContains(sizes.first, "expects one size from all ranks")) << sizes.first;
  EXPECT_EQ(sizes.first, sizes.second);
  const auto doubles = both([&] { return join(0, 2); }, [&] { return join(0, 2); });
  EXPECT_TRUE(StrContains(doubles.first, "got two for rank 0")) << doubles.first;
  EXPECT_EQ(doubles.first, doubles.second);
  const auto secrets = both([&] { return join(0, 2, "a"); }, [&] { return join(1, 2, "b"); });
  EXPECT_TRUE(StrContains(secrets.first, "rank 1 did not come")) << secrets.first;
  EXPECT_TRUE(StrContains(secrets.second, "rank 0 did not come")) << secrets.second;
  const auto tenants =
      both([&] { return join(0, 2, "a", "lab"); }, [&] { return join(1, 2, "a", "other"); });
  EXPECT_TRUE(StrContains(tenants.first,
                          "rank 1 did not come to process group 'g' of 2 within "
                          "300ms"))
      << tenants.first;
  // One that is stopped leaves its place to another session.
  std::unique_ptr<Rank> stopped = NewRank(0, 2);
  std::thread stopping([&] {
    absl::SleepFor(absl::Milliseconds(50));
    stopped->End();
  });
  EXPECT_TRUE(StrContains(stopped->Join(1).ToString(), "was cancelled"));
  stopping.join();
  EXPECT_EQ(both([&] { return join(0, 2); }, [&] { return join(1, 2); }),
            std::make_pair(std::string("OK"), std::string("OK")));
}

TEST_F(CollectivesTest, WhatNoClientSendsIsRefused) {
  FormGroup(1);
  Rank& rank = *ranks_[0];
  command::JoinGroup join;
  join.group = 2;
  join.size = 1;
  join.name = "g";
  const auto refused = [&](int64_t group, int64_t self, int64_t size, const std::string& name) {
    join.group = group;
    join.rank = self;
    join.size = size;
    join.name = name;
    return rank.Join(join).ToString();
  };
  for (const int64_t size : {int64_t{0}, int64_t{-1}, int64_t{1} << 40, int64_t{1025}}) {
    EXPECT_TRUE(StrContains(refused(2, 0, size, "g"), "expects a rank below the size")) << size;
  }
  EXPECT_TRUE(StrContains(refused(2, -1, 2, "g"), "expects a rank below the size"));
  EXPECT_TRUE(StrContains(refused(2, 2, 2, "g"), "expects a rank below the size"));
  EXPECT_TRUE(StrContains(refused(2, 0, 1, ""), "expects a name"));
  EXPECT_TRUE(StrContains(refused(2, 0, 1, std::string(201, 'x')), "expects a name"));
  EXPECT_TRUE(StrContains(refused(1, 0, 1, "g"), "expects a new number"));
  for (int64_t i = 2; i <= static_cast<int64_t>(GroupMember::kMaxGroups); ++i) {
    EXPECT_EQ(refused(i, 0, 1, "g"), "OK");
  }
  EXPECT_TRUE(StrContains(refused(1000, 0, 1, "g"), "is in at most 256 groups"));
  rank.Do({command::LeaveGroup{5}, command::LeaveGroup{5}});
  EXPECT_EQ(refused(1000, 0, 1, "g"), "OK");
  const Handle x = rank.New({1});
  EXPECT_TRUE(StrContains(rank.Error(rank.Call("all_reduce", 5, {x})),
                          "expects a process group of this session, got number 5"));
  const std::unique_ptr<Rank> another = NewRank(1, 3);
  EXPECT_TRUE(StrContains(another->Error(another->Call("all_reduce", 1, {another->New({1})})),
                          "expects a process group of this session"));
  // Another rank than the session has.
  MakeRanks(2);
  std::swap(ranks_[0], ranks_[1]);
  std::unique_ptr<Rank> liar = NewRank(0, 3);
  EXPECT_EQ(liar->Join([&] {
    join.group = 1;
    join.rank = 0;
    join.size = 1;
    join.name = "alone";
    return join;
  }()),
            absl::OkStatus());
  EXPECT_TRUE(StrContains(liar->Error(liar->Call("all_reduce", 1, {liar->New({1})})),
                          "expects rank 0 of 1, as this session is in the group, got 0 of 3"));
}

// The transposed collectives meet in the backward pass. One that does not come to its end leaves
// the others without theirs.
TEST_F(CollectivesTest, BackwardPassesMeetToo) {
  FormGroup(2);
  All([](Rank& rank) {
    const Handle loss = CheckBackward(rank);
    command::Backward backward;
    backward.outputs = {loss};
    if (rank.rank() == 1) backward.outputs = {rank.Call("matmul", 0, {loss, rank.New({1})})};
    rank.Do({backward});
    const std::string error = rank.Error(rank.Call("all_reduce", 1, {rank.New({1})}));
    EXPECT_TRUE(StrContains(error, "rank 1 has not finished a backward pass")) << error;
  });
}

// All of it: what each rank holds of its own is its own account's.
TEST_F(CollectivesTest, ResultsAreChargedToTheirRank) {
  limits_.memory_bytes = int64_t{8} << 20;
  FormGroup(2);
  All([](Rank& rank) {
    const Handle x = rank.New(Values(1 << 19));
    const Handle more = rank.rank() == 1 ? rank.New(Values(3 << 18)) : 0;  // no room for the rows
    const std::string error = rank.Error(rank.Call("all_gather", 1, {x}));
    EXPECT_TRUE(StrContains(error, "out of memory")) << error;
    EXPECT_EQ(StrContains(error, "at rank 1"), rank.rank() == 0) << error;
    rank.Do({command::Release{{x, more}}});
    EXPECT_EQ(*rank.Read(rank.Call("all_reduce", 1, {rank.New({1})})), Values({2}));
  });
}

}  // namespace
}  // namespace chx::server
