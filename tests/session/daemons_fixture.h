// Daemons of one operator's, as far as process groups need them, whose sessions are ranks.
#ifndef CHX_TESTS_SESSION_DAEMONS_FIXTURE_H_
#define CHX_TESTS_SESSION_DAEMONS_FIXTURE_H_

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/collectives/daemon_groups.h"
#include "server/collectives/mesh_library.h"
#include "tests/session/ranks_fixture.h"

namespace chx::server {

// Members end in reverse order.
struct GroupDaemon {
  std::unique_ptr<DaemonGroups> peers;
  std::unique_ptr<ProcessGroups> groups;

  GroupDaemon(const std::string& secret, std::chrono::milliseconds timeout, bool by_devices) {
    signal(SIGPIPE, SIG_IGN);  // as the daemon does
    PeerOptions options;
    options.listen = "127.0.0.1:0";
    options.peers = {"127.0.0.1:*"};
    options.secret = secret;
    options.by_devices = by_devices;
    auto started =
        DaemonGroups::Start(options, MeshesFrom({"server/gloo/libchxd_gloo.so"}), timeout);
    EXPECT_TRUE(started.ok()) << started.status();
    peers = std::move(*started);
    groups = std::make_unique<ProcessGroups>(timeout, peers->remote());
  }
};

class DaemonsTest : public RanksTest {
 protected:
  explicit DaemonsTest(const std::string& devices = "native:0",
                       std::unique_ptr<Backend> other = nullptr)
      : RanksTest(devices, std::move(other)) {}

  // Rank r of a group is a session of daemon `places[r]`. Groups meet at the first daemon.
  void MakeDaemons(const std::vector<int>& places,
                   std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    ranks_.clear();
    daemons_.clear();
    for (size_t rank = 0; rank < places.size(); ++rank) {
      const auto place = static_cast<size_t>(places[rank]);
      while (daemons_.size() <= place) AddDaemon(timeout);
      ranks_.push_back(std::make_unique<Rank>(&devices_, daemons_[place]->groups.get(), limits_,
                                              "lab", static_cast<int>(rank),
                                              static_cast<int>(places.size())));
      ranks_.back()->set_address(daemons_[0]->peers->address());
    }
  }
  void FormAcross(const std::vector<int>& places,
                  std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
    MakeDaemons(places, timeout);
    All([](Rank& rank) { EXPECT_EQ(rank.Join(1), absl::OkStatus()); });
  }
  void AddDaemon(std::chrono::milliseconds timeout, const std::string& secret = "cluster") {
    daemons_.push_back(std::make_unique<GroupDaemon>(secret, timeout, by_devices_));
  }
  ~DaemonsTest() override { ranks_.clear(); }

  bool by_devices_ = false;  // of daemons that are added
  std::vector<std::unique_ptr<GroupDaemon>> daemons_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_DAEMONS_FIXTURE_H_
