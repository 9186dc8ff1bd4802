// Faults at random moments in groups of several daemons: connections that are cut, sessions that
// end, ranks that leave or do not come. All ranks learn of it and which one it was, keep their
// arrays, and form a group again. Of daemons that are killed or stopped themselves:
// tests/integration/daemons_test.py.
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <random>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/session/daemons_fixture.h"

namespace chx::server {
namespace {

constexpr int kRanks = 3;

enum class Fault {
  kCut,    // a connection between daemons
  kEnded,  // a session, as that of a client that was killed
  kLeft,   // a rank, in the group's order of calls
  kAway,   // a rank calls nothing any more, as that of a client that was stopped
};
constexpr int kFaultKinds = 4;

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

  // What `rank` does before its next round, as told by another thread.
  enum class Order { kGoOn, kLeave, kStayAway };

  // Collectives and messages until one fails, whose error it gives, or it is told not to go on.
  std::string Work(Rank& rank) {
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
      const Order order = orders_[static_cast<size_t>(rank.rank())];
      if (order == Order::kGoOn) continue;
      if (order == Order::kStayAway) WaitUntilDone(kRanks - 1);
      rank.Do({command::LeaveGroup{1}});
      return kByItself;
    }
  }

  // Until so many ranks have learnt that the group is broken.
  void WaitUntilDone(int ranks) const {
    for (int i = 0; i < 3000 && done_ < ranks; ++i) absl::SleepFor(absl::Milliseconds(10));
  }

  void EndSession(int victim) {
    const auto i = static_cast<size_t>(victim);
    ranks_[i]->End();
    for (int wait = 0; wait < 30000 && !returned_[i]; ++wait) absl::SleepFor(absl::Milliseconds(1));
    ASSERT_TRUE(returned_[i]);
    ranks_[i]->Destroy();
  }

  // Gives what it was in the end.
  Fault Make(Fault fault, int victim, size_t connection, const std::vector<int>& connections) {
    switch (fault) {
      case Fault::kCut:
        shutdown(connections[connection % connections.size()], SHUT_RDWR);
        // Perhaps it was one that nobody needs any more.
        for (int i = 0; i < 50 && done_ == 0; ++i) absl::SleepFor(absl::Milliseconds(10));
        if (done_ > 0) return fault;
        EndSession(victim);
        return Fault::kEnded;
      case Fault::kEnded:
        EndSession(victim);
        break;
      case Fault::kLeft:
        orders_[static_cast<size_t>(victim)] = Order::kLeave;
        break;
      case Fault::kAway:
        orders_[static_cast<size_t>(victim)] = Order::kStayAway;
        break;
    }
    return fault;
  }

  static constexpr char kByItself[] = "went by itself";

  std::array<std::atomic<Order>, kRanks> orders_;
  std::array<std::atomic<bool>, kRanks> returned_;  // from Work
  std::atomic<int> done_{0};                        // how many have
  const unsigned seed_;
  std::mt19937_64 random_;
};

// Whether an error says of a rank, perhaps among others of its daemon, that it is why.
bool Names(const std::string& error, int rank) {
  static const std::regex& ranks = *new std::regex("(?:in which ranks?|, at rank) ([0-9, ]+)");
  std::smatch found;
  return std::regex_search(error, found, ranks) &&
         absl::StrContains(found[1].str(), absl::StrCat(rank));
}

// A cut is no rank's: either side may find the other one gone, or the daemon where they met.
bool SaysOfACut(const std::string& error) {
  static const std::regex& texts = *new std::regex(
      "in which (the connection to other daemons was cut in |"
      "the daemon at [^ ]+, where it met, has gone|"
      "ranks? [0-9, ]+ (has|have) gone with the daemon at |"
      "ranks? [0-9, ]+ did not (come|send) to )");
  return std::regex_search(error, texts);
}

TEST_F(CollectivesFaultsTest, AllLearnOfItAndGoOn) {
  constexpr int kFaults = 200;
  for (int number = 0; number < kFaults; ++number) {
    NewRanks();
    for (std::atomic<Order>& order : orders_) order = Order::kGoOn;
    for (std::atomic<bool>& returned : returned_) returned = false;
    done_ = 0;
    All([](Rank& rank) { ASSERT_EQ(rank.Join(1), absl::OkStatus()); });
    const auto victim = static_cast<int>(Random(kRanks));
    const std::vector<int> connections = Connections();
    // Of one daemon's ranks there are no connections.
    auto fault =
        static_cast<Fault>(connections.empty() ? 1 + Random(kFaultKinds - 1) : Random(kFaultKinds));
    std::thread trouble([&, delay = Random(5000)] {
      absl::SleepFor(absl::Microseconds(delay));
      fault = Make(fault, victim, static_cast<size_t>(victim * 7919 + delay), connections);
    });
    const absl::Time began = absl::Now();
    std::vector<std::string> errors(kRanks);
    All([&](Rank& rank) {
      const auto i = static_cast<size_t>(rank.rank());
      errors[i] = Work(rank);
      returned_[i] = true;
      ++done_;
    });
    trouble.join();
    EXPECT_LT(absl::Now() - began, absl::Seconds(30));
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string& error = errors[static_cast<size_t>(rank)];
      SCOPED_TRACE(absl::StrCat("fault ", number, " of kind ", static_cast<int>(fault),
                                ", of rank ", victim, ", at rank ", rank, ": ", error));
      if (fault == Fault::kCut) {
        EXPECT_TRUE(SaysOfACut(error) && absl::StrContains(error, "form it again"));
      } else if (rank != victim) {
        EXPECT_TRUE(Names(error, victim));
        // Who ends while it reduces its part says so itself.
        EXPECT_TRUE(absl::StrContains(error, "form it again") ||
                    (fault == Fault::kEnded && absl::StrContains(error, "session has ended")));
      } else if (fault == Fault::kEnded) {
        EXPECT_TRUE(absl::StrContains(error, "session") || absl::StrContains(error, "stopped") ||
                    Names(error, victim));
      } else {
        EXPECT_EQ(error, kByItself);
      }
    }
  }
}

}  // namespace
}  // namespace chx::server
