#include "server/peers/peer_network.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "server/peers/sockets.h"

namespace chx::server {
namespace {

using std::chrono::milliseconds;

constexpr GroupNumber kGroup = {1, 2, 3};

Deadline In(milliseconds time) { return std::chrono::steady_clock::now() + time; }

class PeerNetworkTest : public ::testing::Test {
 protected:
  PeerNetworkTest() : network_(NewNetwork("secret")) {}

  std::unique_ptr<PeerNetwork> NewNetwork(const std::string& secret, bool encrypted = true) {
    PeerOptions options;
    options.listen = "127.0.0.1:0";
    options.peers = {"chxd-*.chxd:7", "127.0.0.1:*"};
    options.secret = secret;
    options.encrypted = encrypted;
    // Sends back what it hears first.
    auto network = PeerNetwork::Start(options, [](int socket) {
      char byte = 0;
      if (recv(socket, &byte, 1, 0) == 1) send(socket, &byte, 1, MSG_NOSIGNAL);
    });
    EXPECT_TRUE(network.ok()) << network.status();
    return std::move(*network);
  }
  std::string Address() { return network_->address(); }
  // Whether the other side has cut it.
  static bool IsCut(int socket) {
    char byte = 0;
    return recv(socket, &byte, 1, 0) <= 0;
  }

  std::unique_ptr<PeerNetwork> network_;
};

TEST_F(PeerNetworkTest, LetsInWhoKnowsTheSecret) {
  const auto socket = network_->ConnectAboutGroups(Address(), In(milliseconds(5000)));
  ASSERT_TRUE(socket.ok()) << socket.status();
  ASSERT_EQ(send(socket->get(), "x", 1, 0), 1);
  char byte = 0;
  EXPECT_EQ(recv(socket->get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(PeerNetworkTest, NeitherSideTrustsAnotherSecret) {
  const auto other = NewNetwork("secret2");
  const auto socket = other->ConnectAboutGroups(Address(), In(milliseconds(5000)));
  ASSERT_FALSE(socket.ok());
  EXPECT_TRUE(absl::StrContains(socket.status().message(), "has another secret"))
      << socket.status();
}

TEST_F(PeerNetworkTest, BothSidesEncryptOrNeither) {
  const auto plain = NewNetwork("secret", false);
  const auto also_plain = NewNetwork("secret", false);
  EXPECT_TRUE(also_plain->ConnectAboutGroups(plain->address(), In(milliseconds(5000))).ok());
  for (const auto& [from, to] :
       {std::make_pair(plain.get(), network_.get()), std::make_pair(network_.get(), plain.get())}) {
    const auto socket = from->ConnectAboutGroups(to->address(), In(milliseconds(5000)));
    ASSERT_FALSE(socket.ok());
    EXPECT_TRUE(absl::StrContains(socket.status().message(), "another --peer-encryption"))
        << socket.status();
  }
}

// Whoever has not proved anything gets a number and a sum, and nothing that it sends is looked at.
TEST_F(PeerNetworkTest, StrangersAreRefused) {
  for (const std::string& said :
       {std::string("GET / HTTP/1.1\r\n\r\n") + std::string(100, 'x'),
        std::string("chxpeer2") + std::string(56, '\0') + std::string(32, 'm')}) {
    const auto socket = ConnectTo(Address(), In(milliseconds(5000)));
    ASSERT_TRUE(socket.ok()) << socket.status();
    ASSERT_EQ(send(socket->get(), said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
    char answer[64];
    ssize_t n = 0;
    size_t received = 0;
    while ((n = recv(socket->get(), answer, sizeof(answer), 0)) > 0) {
      received += static_cast<size_t>(n);
    }
    EXPECT_LE(received, sizeof(answer));
  }
}

// What somebody has overheard is of no use to them.
TEST_F(PeerNetworkTest, AProofIsGoodForOneConnection) {
  std::string said;
  {
    int port = 0;
    const auto listener = ListenAt("127.0.0.1:0", &port);
    ASSERT_TRUE(listener.ok());
    // In the middle of a connection, it hands on and writes down.
    auto client = std::async(std::launch::async, [&] {
      return network_->ConnectAboutGroups("127.0.0.1:" + std::to_string(port),
                                          In(milliseconds(5000)));
    });
    int accepted = -1;
    while (accepted < 0) accepted = accept(listener->get(), nullptr, nullptr);
    const OwnedFd inner(accepted);
    const auto outer = ConnectTo(Address(), In(milliseconds(5000)));
    char bytes[64];
    ASSERT_EQ(recv(inner.get(), bytes, 64, MSG_WAITALL), 64);
    said.append(bytes, 64);
    ASSERT_EQ(send(outer->get(), bytes, 64, 0), 64);
    ASSERT_EQ(recv(outer->get(), bytes, 64, MSG_WAITALL), 64);
    ASSERT_EQ(send(inner.get(), bytes, 64, 0), 64);
    ASSERT_EQ(recv(inner.get(), bytes, 32, MSG_WAITALL), 32);
    said.append(bytes, 32);
    EXPECT_TRUE(client.get().ok());
  }
  const auto socket = ConnectTo(Address(), In(milliseconds(5000)));
  ASSERT_EQ(send(socket->get(), said.data(), said.size(), 0), static_cast<ssize_t>(said.size()));
  char answer[64];
  ASSERT_EQ(recv(socket->get(), answer, 64, MSG_WAITALL), 64);
  EXPECT_TRUE(IsCut(socket->get()));
}

TEST_F(PeerNetworkTest, SilenceKeepsNobodyOut) {
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(*ConnectTo(Address(), In(milliseconds(5000))));
  const auto socket = network_->ConnectAboutGroups(Address(), In(milliseconds(2000)));
  EXPECT_TRUE(socket.ok()) << socket.status();
}

// Until these have had their time.
TEST_F(PeerNetworkTest, NorDoCrowds) {
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(*ConnectTo(Address(), In(milliseconds(5000))));
  const auto socket = network_->ConnectAboutGroups(Address(), In(milliseconds(20000)));
  EXPECT_TRUE(socket.ok()) << socket.status();
}

// Neither somebody who says nothing, nor somebody who hangs up again and again.
TEST_F(PeerNetworkTest, ItsEndWaitsForNobodyElse) {
  int silent_port = 0;
  const auto silent = ListenAt("127.0.0.1:0", &silent_port);
  int curt_port = 0;
  const auto curt = ListenAt("127.0.0.1:0", &curt_port);
  std::atomic<bool> ended{false};
  std::thread hangs_up([&] {
    while (!ended) {
      const OwnedFd socket(accept(curt->get(), nullptr, nullptr));
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  std::vector<std::future<absl::Status>> connecting;
  for (const int port : {silent_port, curt_port}) {
    connecting.push_back(std::async(std::launch::async, [this, port] {
      return network_
          ->ConnectAboutGroups("127.0.0.1:" + std::to_string(port), In(milliseconds(60000)))
          .status();
    }));
  }
  std::this_thread::sleep_for(milliseconds(300));
  network_->Stop();
  for (auto& each : connecting) {
    const bool over = each.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    EXPECT_TRUE(over);
    if (over) {
      EXPECT_FALSE(each.get().ok());
    }
  }
  ended = true;
  hangs_up.join();
}

std::string AddressOf(int port) { return "127.0.0.1:" + std::to_string(port); }

TEST_F(PeerNetworkTest, SilentIsWhoSaysNothing) {
  const auto friendly = NewNetwork("secret");
  const auto other_secret = NewNetwork("secret2");
  const auto plain = NewNetwork("secret", false);
  int curt_port = 0;
  const auto curt = ListenAt("127.0.0.1:0", &curt_port);
  std::thread hangs_up([&] {
    int accepted = -1;
    while (accepted < 0) accepted = accept(curt->get(), nullptr, nullptr);
    const OwnedFd closed(accepted);
  });
  int silent_port = 0;
  const auto silent = ListenAt("127.0.0.1:0", &silent_port);  // as a daemon that is stopped
  int port = 0;
  EXPECT_TRUE(ListenAt("127.0.0.1:0", &port).ok());  // and there is nobody any more
  const std::vector<std::string> others = {friendly->address(), other_secret->address(),
                                           plain->address(), AddressOf(curt_port), "no address"};
  EXPECT_EQ(network_->FindSilent(others, milliseconds(20000)), std::vector<size_t>());
  hangs_up.join();
  EXPECT_EQ(network_->FindSilent({AddressOf(silent_port), friendly->address(), AddressOf(port)},
                                 milliseconds(1000)),
            std::vector<size_t>({0, 2}));
  EXPECT_EQ(network_->FindSilent({}, milliseconds(20000)), std::vector<size_t>());
}

// Nobody is taken for silent as others are, nor waits for all of these.
TEST_F(PeerNetworkTest, AmongManyThatAreSilentSomeAreFound) {
  const auto friendly = NewNetwork("secret");
  int silent_port = 0;
  const auto silent = ListenAt("127.0.0.1:0", &silent_port);
  std::vector<std::string> others(40, AddressOf(silent_port));
  for (size_t i = 0; i < others.size(); i += 2) others[i] = friendly->address();
  const Deadline began = In(milliseconds(0));
  const std::vector<size_t> found = network_->FindSilent(others, milliseconds(1000));
  EXPECT_LT(In(milliseconds(0)) - began, milliseconds(3000));
  EXPECT_GE(found.size(), 8U);
  for (const size_t i : found) EXPECT_EQ(i % 2, 1U) << i;
}

TEST_F(PeerNetworkTest, ItsEndEndsALookForSilence) {
  int silent_port = 0;
  const auto silent = ListenAt("127.0.0.1:0", &silent_port);
  auto found = std::async(std::launch::async, [&] {
    return network_->FindSilent({AddressOf(silent_port)}, milliseconds(60000));
  });
  std::this_thread::sleep_for(milliseconds(300));
  network_->Stop();
  EXPECT_EQ(found.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(found.get(), std::vector<size_t>());
  EXPECT_EQ(network_->FindSilent({AddressOf(silent_port)}, milliseconds(60000)),
            std::vector<size_t>());
}

TEST_F(PeerNetworkTest, AGroupsConnectionNeedsItsKey) {
  std::promise<std::pair<int, bool>> come;
  int calls = 0;
  network_->ExpectGroup(kGroup, "key", [&](int from, OwnedFd socket) {
    if (++calls == 1) come.set_value({from, socket.get() >= 0});
  });
  PeerPurpose purpose;
  purpose.group = kGroup;
  purpose.from = 3;
  EXPECT_FALSE(network_->ConnectInGroup(Address(), purpose, "key2", In(milliseconds(2000))).ok());
  EXPECT_TRUE(network_->ConnectInGroup(Address(), purpose, "key", In(milliseconds(2000))).ok());
  EXPECT_EQ(come.get_future().get(), std::make_pair(3, true));
  // Once.
  const auto again = network_->ConnectInGroup(Address(), purpose, "key", In(milliseconds(2000)));
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(IsCut(again->get()));
  network_->ForgetGroup(kGroup);
  EXPECT_EQ(calls, 1);
}

// Two daemons learn of a group at different times.
TEST_F(PeerNetworkTest, AGroupMayComeALittleLater) {
  PeerPurpose purpose;
  purpose.group = kGroup;
  auto early = std::async(std::launch::async, [&] {
    return network_->ConnectInGroup(Address(), purpose, "key", In(milliseconds(5000))).ok();
  });
  std::this_thread::sleep_for(milliseconds(50));
  network_->ExpectGroup(kGroup, "key", [](int, const OwnedFd&) {});
  EXPECT_TRUE(early.get());
  network_->ForgetGroup(kGroup);
}

TEST_F(PeerNetworkTest, ClientsMayNameSomeAddresses) {
  EXPECT_TRUE(network_->CheckMeetingPlace("chxd-12.chxd:7").ok());
  EXPECT_TRUE(network_->CheckMeetingPlace(Address()).ok());
  const absl::Status refused = network_->CheckMeetingPlace("metadata.internal:80");
  EXPECT_TRUE(absl::StrContains(refused.message(), "--peers")) << refused;
}

}  // namespace
}  // namespace chx::server
