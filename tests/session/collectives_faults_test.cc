// Faults at random moments in groups of several daemons: connections that are cut, sessions that
// end, ranks that leave or do not come. All ranks learn of it, keep their arrays, and form a group
// again.
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdlib>
#include <random>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/session/daemons_fixture.h"

namespace chx::server {
namespace {

constexpr int kRanks = 3;

// Of this process, which are all of daemons to each other.
std::vector<int> Connections() {
  std::vector<int> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  while (const dirent* entry = readdir(folder.get())) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_storage name = {};
    socklen_t size = sizeof(name);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&name), &size) == 0 &&
        name.ss_family == AF_INET) {
      found.push_back(fd);
    }
  }
  return found;
}

class CollectivesFaultsTest : public DaemonsTest {
 protected:
  CollectivesFaultsTest() : seed_(std::random_device()()), random_(seed_) {
    std::cout << "seed " << seed_ << std::endl;
    for (int i = 0; i < kRanks; ++i) AddDaemon(std::chrono::milliseconds(250));
  }

  int64_t Random(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  void NewRanks() {
    ranks_.clear();
    // Two or three daemons, in any order, which meet at any of these.
    std::vector<size_t> places;
    for (int i = 0; i < kRanks; ++i) places.push_back(static_cast<size_t>(Random(kRanks)));
    const std::string& meeting = daemons_[places[0]]->peers->address();
    for (int i = 0; i < kRanks; ++i) {
      ranks_.push_back(std::make_unique<Rank>(&devices_, daemons_[places[i]]->groups.get(), limits_,
                                              "lab", i, kRanks));
      ranks_.back()->set_address(meeting);
    }
  }

  // Collectives and messages until one fails.
  static std::string Work(Rank& rank) {
    const Handle small = rank.New({1, 2});
    const Handle large = rank.New(Values(100000, 1));
    const auto leave = [&rank](Handle failed) {
      const std::string error = rank.Error(failed);
      rank.Do({command::LeaveGroup{1}});
      return error;
    };
    const int next = (rank.rank() + 1) % kRanks;
    const int before = (rank.rank() + kRanks - 1) % kRanks;
    while (true) {
      for (const Handle x : {small, large}) {
        const Handle sum = rank.Call("all_reduce", 1, {x});
        if (!rank.Read(sum).ok()) return leave(sum);
        rank.Call("send", 1, {sum}, {next, 3});
        const Handle received = rank.Call("recv", 1, {x}, {before, 3});
        const absl::StatusOr<Values> values = rank.Read(received);
        if (!values.ok()) return leave(received);
        EXPECT_EQ((*values)[0], 3.0F);
        const Handle rows = rank.Call("all_gather", 1, {x});
        if (!rank.Read(rows).ok()) return leave(rows);
        rank.Do({command::Release{{sum, received, rows}}});
      }
      const absl::StatusOr<Values> kept = rank.Read(small);
      if (!kept.ok()) return leave(small);
      EXPECT_EQ(*kept, Values({1, 2}));
    }
  }

  const unsigned seed_;
  std::mt19937_64 random_;
};

TEST_F(CollectivesFaultsTest, AllLearnOfItAndGoOn) {
  constexpr int kFaults = 200;
  for (int fault = 0; fault < kFaults; ++fault) {
    NewRanks();
    All([](Rank& rank) { ASSERT_EQ(rank.Join(1), absl::OkStatus()); });
    const int64_t kind = Random(3);
    const int64_t victim = Random(kRanks);
    const std::vector<int> connections = Connections();
    const bool one_daemon = connections.empty();
    std::atomic<int> done{0};
    std::thread trouble([&, delay = Random(5000)] {
      absl::SleepFor(absl::Microseconds(delay));
      if (kind == 0 && !one_daemon) {
        const auto i = static_cast<size_t>(victim * 7919 + delay) % connections.size();
        shutdown(connections[i], SHUT_RDWR);
        // Perhaps it was one that nobody needs any more.
        for (int i = 0; i < 50 && done == 0; ++i) absl::SleepFor(absl::Milliseconds(10));
        if (done > 0) return;
      }
      ranks_[static_cast<size_t>(victim)]->End();
    });
    const absl::Time began = absl::Now();
    std::vector<std::string> errors(kRanks);
    All([&](Rank& rank) {
      errors[static_cast<size_t>(rank.rank())] = Work(rank);
      ++done;
    });
    trouble.join();
    EXPECT_LT(absl::Now() - began, absl::Seconds(30));
    for (const std::string& error : errors) {
      EXPECT_TRUE(absl::StrContains(error, "form it again") ||
                  absl::StrContains(error, "session") || absl::StrContains(error, "stopped"))
          << "fault " << fault << " of kind " << kind << ": " << error;
    }
  }
}

}  // namespace
}  // namespace chx::server
