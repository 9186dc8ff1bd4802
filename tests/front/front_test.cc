// What authenticated clients have of the front: their bytes, whatever happens to it.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/sanitizers.h"
#include "server/front/listeners.h"
#include "server/front/tls.h"
#include "tests/front/front_fixture.h"

namespace chx::server {
namespace {

TEST_F(FrontTest, TheDaemonGetsTheHelloAndAllThatFollows) {
  Start();
  for (const bool tls : {false, true}) {
    SCOPED_TRACE(tls);
    Client client(tls ? tls_port() : plain_port(), tls, "127.0.0.2");
    ASSERT_TRUE(client.connected());
    // In one write with its first call, and byte by byte.
    EXPECT_TRUE(client.Echoes(HelloFrame(kToken) + "first call"));
    const std::string hello = HelloFrame(kToken);
    Client slow(tls ? tls_port() : plain_port(), tls);
    for (const char byte : hello) {
      ASSERT_TRUE(slow.Send(std::string(1, byte)));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(slow.Receive(hello.size()), hello);
    EXPECT_TRUE(slow.Echoes("more"));
  }
  const std::vector<PeerInfo> peers = this->peers();
  ASSERT_EQ(peers.size(), 4u);
  EXPECT_EQ(peers[0].kind, PeerInfo::kTcp);
  EXPECT_EQ(peers[0].address, "127.0.0.2");
  EXPECT_EQ(peers[1].address, "127.0.0.1");
  EXPECT_NE(peers[0].token_label, "");
}

TEST_F(FrontTest, MegabytesPassBothWaysAtOnce) {
  Start();
  for (const bool tls : {false, true}) {
    SCOPED_TRACE(tls);
    const std::unique_ptr<Client> client = Authenticated(tls);
    ASSERT_NE(client, nullptr);
    // More than all buffers on the way hold: who sends waits for who reads.
    std::string sent(24 << 20, '\0');
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 2654435761u >> 13);
    std::string received;
    if (tls) {  // one thread at a time may use an SSL
      for (size_t i = 0; i < sent.size(); i += 64 << 10) {
        ASSERT_TRUE(client->Send(sent.substr(i, 64 << 10)));
        received += client->Receive(64 << 10);
      }
    } else {
      std::thread sender([&] { EXPECT_TRUE(client->Send(sent)); });
      received = client->Receive(sent.size());
      sender.join();
    }
    EXPECT_TRUE(received == sent);
  }
}

TEST_F(FrontTest, APeerThatDoesNotReadHoldsUpNobodyAndLittleMemory) {
  Start();
  const size_t before = FrontBytes();
  std::vector<std::unique_ptr<Client>> deaf;
  for (int i = 0; i < 20; ++i) deaf.push_back(Authenticated(true));
  std::vector<std::thread> senders;
  senders.reserve(deaf.size());
  for (const auto& client : deaf) {
    ASSERT_NE(client, nullptr);
    senders.emplace_back([&client] {
      const std::string megabyte(1 << 20, 'x');
      for (int i = 0; i < 32 && client->Send(megabyte); ++i) {
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const std::unique_ptr<Client> other = Authenticated(true);
  ASSERT_NE(other, nullptr);
  EXPECT_TRUE(other->Echoes("hello"));
  EXPECT_LT(FrontBytes(), before + (32 << 20));
  for (const auto& client : deaf) shutdown(client->socket(), SHUT_RDWR);
  for (std::thread& sender : senders) sender.join();
}

TEST_F(FrontTest, ADeadFrontIsReplacedAndItsPortStaysOpen) {
  Start();
  for (int i = 0; i < 3; ++i) {
    const std::unique_ptr<Client> secure = Authenticated(true);
    const std::unique_ptr<Client> plain = Authenticated(false);
    ASSERT_TRUE(secure != nullptr && plain != nullptr);
    const pid_t pid = supervisor_->pid();
    ASSERT_GT(pid, 0);
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    // A cut for those behind TLS; a socket that the daemon has is none of the front's.
    EXPECT_TRUE(secure->IsClosed());
    EXPECT_TRUE(plain->Echoes("still there"));
    // Never refused: the connection waits for the next front.
    const std::unique_ptr<Client> next = Authenticated(true);
    ASSERT_NE(next, nullptr);
    EXPECT_NE(supervisor_->pid(), pid);
  }
}

TEST_F(FrontTest, TheFrontInheritsNothingAndMayDoLittle) {
  // A library's descriptor that nobody has marked.
  const int leaked = open("/dev/null", O_RDONLY);
  Start();
  ASSERT_NE(Authenticated(true), nullptr);
  const std::string process = "/proc/" + std::to_string(supervisor_->pid());
  std::ifstream status(process + "/status");
  bool no_new_privileges = false;
  for (std::string word; status >> word;) {
    int value = 0;
    if (word == "NoNewPrivs:" && status >> value) no_new_privileges = value == 1;
  }
  EXPECT_TRUE(no_new_privileges);
  rlimit data = {};
  ASSERT_EQ(prlimit(supervisor_->pid(), RLIMIT_DATA, nullptr, &data), 0);
  EXPECT_EQ(data.rlim_max == RLIM_INFINITY, kSanitized);
  int oom_score = 0;
  std::ifstream(process + "/oom_score_adj") >> oom_score;
  EXPECT_EQ(oom_score, 1000);
  rlimit core = {};
  ASSERT_EQ(prlimit(supervisor_->pid(), RLIMIT_CORE, nullptr, &core), 0);
  EXPECT_EQ(core.rlim_max, 0u);
  std::error_code denied;  // only root may look
  int null_devices = 0;
  for (const auto& each : std::filesystem::directory_iterator(process + "/fd", denied)) {
    if (std::filesystem::read_symlink(each, denied) == "/dev/null") ++null_devices;
  }
  EXPECT_LE(null_devices, 2);
  close(leaked);
}

TEST_F(FrontTest, ItEndsWithItsDaemon) {
  Start();
  const pid_t pid = supervisor_->pid();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) kill(pid, signal);  // a group's; not for it
  ASSERT_NE(Authenticated(true), nullptr);
  EXPECT_EQ(supervisor_->pid(), pid);
  supervisor_ = nullptr;
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(FrontTest, AnotherCertificateIsForNewConnections) {
  Start();
  const std::unique_ptr<Client> before = Authenticated(true);
  ASSERT_NE(before, nullptr);
  EXPECT_FALSE(supervisor_->Reload("nonsense", options_.tls_key).ok());
  EXPECT_TRUE(supervisor_->Reload(options_.tls_cert, options_.tls_key).ok());
  EXPECT_NE(Authenticated(true), nullptr);
  EXPECT_TRUE(before->Echoes("still there"));
}

TEST_F(FrontTest, OtherTokensAreForNewConnections) {
  Start();
  const std::unique_ptr<Client> before = Authenticated(true);
  ASSERT_NE(before, nullptr);
  const auto refuses = [this](const char* token) {
    Client client(plain_port(), false);
    return !client.Echoes(HelloFrame(token));
  };
  EXPECT_TRUE(refuses("another token"));
  ASSERT_TRUE(supervisor_->SetGuests(FrontGuests::ByTokens({"another token"})).ok());
  for (int i = 0; i < 1000 && !refuses(kToken); ++i) usleep(10000);
  EXPECT_TRUE(refuses(kToken));
  EXPECT_TRUE(before->Echoes("still there"));
  ASSERT_TRUE(supervisor_->SetGuests(FrontGuests::ByTokens({"another token", kToken})).ok());
  std::unique_ptr<Client> after;
  for (int i = 0; i < 1000 && after == nullptr; ++i) after = Authenticated(true);
  EXPECT_NE(after, nullptr);
}

TEST_F(FrontTest, WhatCannotBeListenedOnIsAnErrorOfTheStart) {
  Start();
  FrontOptions taken = options_;
  taken.listeners = {{"127.0.0.1:" + std::to_string(plain_port()), false}};
  EXPECT_FALSE(Supervisor::Start(taken, [](int, const PeerInfo&) {}).ok());
  taken.listeners = {{"no such host.example:0", false}};
  EXPECT_FALSE(Supervisor::Start(taken, [](int, const PeerInfo&) {}).ok());
  taken.listeners = {{"127.0.0.1:0", true}};
  taken.tls_key = "nonsense";
  EXPECT_FALSE(Supervisor::Start(taken, [](int, const PeerInfo&) {}).ok());
}

// What the front is compared with: an echo that speaks TLS itself, for one connection.
class DirectEcho {
 public:
  DirectEcho(const FrontOptions& options, bool tls) {
    std::vector<int> sockets;
    port_ = *ListenOn("127.0.0.1:0", &sockets);
    listener_ = sockets[0];
    fcntl(listener_, F_SETFL, 0);
    context_ = *FrontTls::Create({options.tls_cert, options.tls_key});
    thread_ = std::thread([this, tls] { Run(tls); });
  }
  ~DirectEcho() {
    thread_.join();
    close(listener_);
  }
  int port() const { return port_; }

 private:
  void Run(bool tls) const {
    const int socket = accept(listener_, nullptr, nullptr);
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    FrontTlsStream stream(*context_, socket);
    if (tls) stream.Handshake();
    std::string buffer(4096, '\0');
    for (;;) {
      size_t size = 0;
      if (tls) {
        const IoResult read = stream.Read(&buffer[0], buffer.size(), &size);
        if (read == IoResult::kAgain) continue;
        if (read != IoResult::kDone) break;
        stream.Write(buffer.data(), size);
      } else {
        const ssize_t received = recv(socket, &buffer[0], buffer.size(), 0);
        if (received <= 0) break;
        send(socket, buffer.data(), static_cast<size_t>(received), MSG_NOSIGNAL);
      }
    }
    close(socket);
  }

  int port_ = 0;
  int listener_ = -1;
  std::shared_ptr<FrontTls> context_;
  std::thread thread_;
};

double MedianTrip(Client* client) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTrips = 4000;
  std::vector<double> trips;
  trips.reserve(kTrips);
  for (int i = 0; i < kTrips; ++i) {
    const auto start = Clock::now();
    EXPECT_TRUE(client->Echoes("012345678901234567890123456789012345678901234567"));
    trips.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(trips.begin(), trips.begin() + kTrips / 2, trips.end());
  return trips[kTrips / 2];
}

// Not checks: a shared machine's speed is nobody's fault.
TEST_F(FrontTest, Speed) {
  Start();
  for (const bool tls : {false, true}) {
    double direct = 1e9;
    double front = 1e9;
    for (int i = 0; i < 3; ++i) {
      const DirectEcho echo(options_, tls);
      Client client(echo.port(), tls);
      direct = std::min(direct, MedianTrip(&client));
      front = std::min(front, MedianTrip(Authenticated(tls).get()));
    }
    std::cout << (tls ? "TLS" : "plain") << ": a round trip takes " << direct << " us directly, "
              << front << " us by the front" << std::endl;
  }
}

}  // namespace
}  // namespace chx::server
