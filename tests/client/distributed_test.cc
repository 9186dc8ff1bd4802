#include "client/distributed.h"

#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

class DistributedTest : public ClientTest {
 protected:
  static absl::StatusOr<ProcessGroup> Join(Session& session, int rank, int size) {
    GroupOptions options;
    options.rank = rank;
    options.size = size;
    return ProcessGroup::Init(session, options);
  }
};

TEST_F(DistributedTest, TwoSessionsAreTheRanksOfAGroup) {
  absl::StatusOr<Ref<Session>> second = Session::Connect(UnixAddress());
  ASSERT_OK(second.status());
  const auto run = [](Session& session, int rank) {
    const absl::StatusOr<ProcessGroup> group = Join(session, rank, 2);
    ASSERT_OK(group.status());
    const Array x = ones(session, {2}, Dtype::kFloat64) * static_cast<double>(rank + 1);
    EXPECT_EQ(Values(distributed::all_reduce({x}, *group)[0]), Vector({3, 3}));
    EXPECT_EQ(Values(distributed::all_gather(x, *group)), Vector({1, 1, 2, 2}));
    ASSERT_OK(group->Barrier());
    const auto alone = group->Sub({1});
    ASSERT_OK(alone.status());
    ASSERT_EQ(alone->has_value(), rank == 1);
    if (alone->has_value()) {
      EXPECT_EQ((*alone)->name(), "default/1");
      EXPECT_EQ((*alone)->rank(), 0);
      EXPECT_EQ(Values(distributed::broadcast(x, **alone)), Vector({2, 2}));
    }
    EXPECT_FALSE(group->Sub({0, 0}).ok());
    ASSERT_OK(group->Barrier());
    if (rank == 1) {
      ASSERT_OK(group->Leave());
      return;
    }
    const Array never = distributed::all_to_all(x, *group);
    const absl::Status status = session.Confirm(*never.body());
    EXPECT_TRUE(absl::StrContains(status.message(), "rank 1 has left")) << status;
  };
  std::thread other([&] { run(**second, 1); });
  run(*session_, 0);
  other.join();
}

TEST_F(DistributedTest, TheEnvironmentSaysRankAndSize) {
  for (const char* name : {"RANK", "WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "CHX_GROUP_NAME"}) {
    unsetenv(name);
  }
  EXPECT_FALSE(GroupOptions::FromEnvironment().ok());
  setenv("PMI_RANK", "3", 1);
  setenv("PMI_SIZE", "8", 1);
  setenv("CHX_GROUP_NAME", "mpi", 1);
  absl::StatusOr<GroupOptions> options = GroupOptions::FromEnvironment();
  ASSERT_OK(options.status());
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->size, 8);
  EXPECT_EQ(options->name, "mpi");
  setenv("WORLD_SIZE", "2", 1);
  setenv("RANK", "first", 1);
  EXPECT_TRUE(absl::StrContains(GroupOptions::FromEnvironment().status().message(),
                                "expects a number in RANK, got 'first'"));
}

}  // namespace
}  // namespace chx
