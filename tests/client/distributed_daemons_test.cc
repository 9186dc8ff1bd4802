// Process groups of C++ clients whose sessions belong to two daemons.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "client/distributed.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

class DistributedDaemonsTest : public ClientTest {
 protected:
  // Rank r is a session of daemon r. They meet at daemon 0.
  static constexpr int kRanks = 2;

  DistributedDaemonsTest() {
    options.peers.listen = "127.0.0.1:0";
    options.peers.peers = {"127.0.0.1:*"};
    options.peers.secret = "cluster";
    options.mesh_libraries = {"server/gloo/libchxd_gloo.so"};
  }

  void SetUp() override {
    ClientTest::SetUp();
    server::Options other = options;
    const std::string address = absl::StrCat("unix:", other_directory_.Socket());
    other.listeners = *server::ParseListen(address);
    auto daemon = server::Daemon::Start(other, {other_backend_.get()});
    ASSERT_OK(daemon.status());
    other_daemon_ = *std::move(daemon);
    auto session = Session::Connect(address);
    ASSERT_OK(session.status());
    other_session_ = *std::move(session);
  }

  absl::StatusOr<ProcessGroup> Join(int rank) {
    GroupOptions group;
    group.rank = rank;
    group.size = kRanks;
    group.address = daemon_->peer_address();
    return ProcessGroup::Init(rank == 0 ? *session_ : *other_session_, group);
  }

  // body(group) for each rank at once.
  template <typename Body>
  void All(const Body& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const absl::StatusOr<ProcessGroup> group = Join(rank);
        ASSERT_OK(group.status());
        body(*group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static Array On(const ProcessGroup& group, const Vector& values) {
    return Array::FromHost(group.session(), values.data(), {static_cast<int64_t>(values.size())},
                           Dtype::kFloat64);
  }

  std::unique_ptr<server::Backend> other_backend_ = server::CreateNativeBackend({});
  server::SocketDirectory other_directory_;
  std::unique_ptr<server::Daemon> other_daemon_;
  Ref<Session> other_session_;
};

TEST_F(DistributedDaemonsTest, RanksMeetAtAnAddress) {
  All([](const ProcessGroup& group) {
    const Array x = On(group, {group.rank() + 1.0, 5});
    EXPECT_EQ(Values(distributed::all_reduce({x}, group)[0]), Vector({3, 10}));
    EXPECT_EQ(Values(distributed::all_gather(x, group)), Vector({1, 5, 2, 5}));
    ASSERT_OK(group.Barrier());
  });
}

// The loss of rank r is sum(w * x_r) + r * sum(b), and nothing depends on the third parameter.
TEST_F(DistributedDaemonsTest, AReducerGivesEachRankTheMeanOfGradients) {
  All([](const ProcessGroup& group) {
    const double rank = group.rank();
    const Array w = On(group, {1, 2}).RequireGrad();
    const Array b = On(group, {3}).RequireGrad();
    const Array unused = On(group, {4}).RequireGrad();
    const Array x = On(group, {rank + 1, 10 * rank});
    const GradientReducer mean(group, {w, b, unused});
    ASSERT_OK(mean.Backward(sum(w * x) + sum(b) * rank));
    EXPECT_EQ(Values(w.Grad()), Vector({1.5, 5}));
    EXPECT_EQ(Values(b.Grad()), Vector({0.5}));
    EXPECT_EQ(Values(unused.Grad()), Vector({0}));

    GradientReduction half;
    half.reduction = 0;  // the sum
    half.dtype = Dtype::kFloat32;
    half.bucket_bytes = 1;
    const Array v = On(group, {1}).RequireGrad();
    ASSERT_OK(GradientReducer(group, {v}, half).Backward(sum(v * v) * (rank + 1)));
    EXPECT_EQ(Values(v.Grad()), Vector({6}));
  });
}

// Each pass has the gradients of the one before.
TEST_F(DistributedDaemonsTest, ADelayedReducerIsOneStepBehind) {
  All([](const ProcessGroup& group) {
    GradientReduction delayed;
    delayed.delayed = true;
    const Array w = On(group, {1}).RequireGrad();
    const GradientReducer reducer(group, {w}, delayed);
    for (int step = 0; step < 4; ++step) {
      ASSERT_OK(w.ClearGrad());
      ASSERT_OK(reducer.Backward(sum(w) * (10.0 * step + 2 * group.rank())));
      EXPECT_EQ(Values(w.Grad()), Vector({step == 0 ? 0 : 10.0 * (step - 1) + 1})) << step;
    }
  });
}

TEST_F(DistributedDaemonsTest, AnAddressThatDoesNotAnswerIsAnError) {
  GroupOptions group;
  group.size = kRanks;
  group.address = "127.0.0.1:1";
  const absl::Status status = ProcessGroup::Init(*session_, group).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "127.0.0.1:1")) << status;
}

}  // namespace
}  // namespace chx
