// What peers without the token can do to the front, and cannot.
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/front/front_fixture.h"

namespace chx::server {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

TEST_F(FrontTest, WithoutTheTokenNobodyGetsIn) {
  options_.patience = std::chrono::seconds(1);
  Start();
  for (const bool tls : {false, true}) {
    for (const char* wrong : {"", "correct", "correct horse battery stapl3"}) {
      Client client(tls ? tls_port() : plain_port(), tls);
      ASSERT_TRUE(client.Send(HelloFrame(wrong) + "and a call"));
      const std::string answer = client.Receive(4096);
      EXPECT_NE(answer.find("expects a valid token"), std::string::npos) << tls << wrong;
    }
    Client http(tls ? tls_port() : plain_port(), tls);
    ASSERT_TRUE(http.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    EXPECT_NE(http.Receive(4096).find("expects frames"), std::string::npos);
  }
  // Bytes that are no TLS where it is asked for.
  for (const std::string& bytes :
       {std::string("PRI * HTTP/2.0\r\n\r\n"), HelloFrame(kToken),
        std::string("\x16\x03\x01 nonsense"), std::string(20000, '\x16')}) {
    Client client(tls_port());
    ASSERT_TRUE(client.Send(bytes));
    const std::string answer = client.Receive(100000);
    if (bytes[0] == '\x16') {  // an alert, if anything
      EXPECT_LT(answer.size(), 100u);
    } else {
      EXPECT_NE(answer.find("this port expects TLS"), std::string::npos) << answer;
    }
  }
  EXPECT_TRUE(peers().empty());
}

TEST_F(FrontTest, SilentConnectionsMakeRoomForOthers) {
  Start();
  ASSERT_NE(Authenticated(true), nullptr);
  const size_t before = FrontBytes();
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 2000; ++i) {
    silent.push_back(std::make_unique<Client>(i % 2 == 0 ? plain_port() : tls_port(), false,
                                              i % 3 == 0 ? "127.0.0.1" : "127.0.0.9"));
    if (i % 5 == 0) silent.back()->Send("\x16\x03\x01\x02");  // as TLS begins
  }
  const auto start = Clock::now();
  for (const bool tls : {false, true}) EXPECT_NE(Authenticated(tls), nullptr);
  EXPECT_LT(SecondsSince(start), 1.0 * 5);
  EXPECT_LT(FrontBytes(), before + (64 << 20));
  // The first ones had to go.
  EXPECT_TRUE(silent[1]->IsClosed());
}

TEST_F(FrontTest, FullHandshakesWithoutATokenDoNotHoldUpOthers) {
  Start();
  const size_t before = FrontBytes();
  std::atomic<bool> stop{false};
  std::vector<std::thread> flood;
  for (int i = 0; i < 4; ++i) {
    flood.emplace_back([&] {
      std::vector<std::unique_ptr<Client>> kept;
      while (!stop) {
        kept.push_back(std::make_unique<Client>(tls_port(), true, "127.0.0.9"));
        if (kept.size() > 100) kept.clear();
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    EXPECT_NE(Authenticated(true), nullptr);
    EXPECT_LT(SecondsSince(start), 1.0 * 5);
  }
  EXPECT_LT(FrontBytes(), before + (64 << 20));
  stop = true;
  for (std::thread& thread : flood) thread.join();
}

TEST_F(FrontTest, WhoDoesNotFinishItsHelloIsCut) {
  options_.patience = std::chrono::seconds(1);
  Start();
  const auto start = Clock::now();
  Client silent(plain_port());
  Client partial(plain_port());
  ASSERT_TRUE(partial.Send(HelloFrame(kToken).substr(0, 20)));
  Client secure(tls_port(), true);
  ASSERT_TRUE(secure.Send(HelloFrame(kToken).substr(0, 20)));
  std::thread slow([&] {  // a byte now and then changes nothing
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      partial.Send("x");
    }
  });
  for (Client* client : {&silent, &partial, &secure}) EXPECT_TRUE(client->IsClosed());
  EXPECT_GT(SecondsSince(start), 0.9);
  slow.join();
}

}  // namespace
}  // namespace chx::server
