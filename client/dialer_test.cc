#include "client/dialer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Somebody's.
constexpr char kRoots[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBbzCCARWgAwIBAgIUOBdGzdsOtzRxFt19mmyH4nnGnCIwCgYIKoZIzj0EAwIw\n"
    "DDEKMAgGA1UEAwwBdDAgFw0yNjExMjIwNzA3MTJaGA8yMTI2MTAyOTA3MDcxMlow\n"
    "DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIny0zym+xjP\n"
    "FDF6YO4sdGEApKw/AQw28KHYbiSHdIPyvNqWhej8bt6K2Sp0ZYgaDV7C7QeiXzix\n"
    "pnFKiFxHw/WjUzBRMB0GA1UdDgQWBBRl6EEyc4H6fYk+13PKhLezwVxB4TAfBgNV\n"
    "HSMEGDAWgBRl6EEyc4H6fYk+13PKhLezwVxB4TAPBgNVHRMBAf8EBTADAQH/MAoG\n"
    "CCqGSM49BAMCA0gAMEUCIB2IYzp19zdRE16ShHsT5Km9BOeeW2Y7u4ksxWguhsYW\n"
    "AiEAsiBKLgwOnL83rrKi5iDGQyn0ZvODrWN3ErhM2FLL7Fg=\n"
    "-----END CERTIFICATE-----\n";

// A listener on 127.0.0.1 that accepts nothing by itself.
class TcpListener {
 public:
  TcpListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&name), &size), 0);
    port_ = ntohs(name.sin_port);
  }
  ~TcpListener() { close(fd_); }
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

absl::StatusOr<std::unique_ptr<Socket>> Dial(const std::string& address,
                                             milliseconds patience = milliseconds(5000),
                                             const std::string& roots = "") {
  const auto dialer = Dialer::For(address, roots);
  if (!dialer.ok()) return dialer.status();
  return (*dialer)->Dial(steady_clock::now() + patience);
}

TEST(Dialer, AddressesThatAreNoneSaySo) {
  for (const char* address : {"", "localhost", ":7", "unix:"}) {
    const absl::Status status = Dial(address).status();
    EXPECT_EQ(KindOf(status), ErrorKind::kConnection) << address;
    EXPECT_NE(status.message().find("'unix:PATH' or 'HOST:PORT'"), absl::string_view::npos)
        << status;
  }
}

TEST(Dialer, WhoCannotBeReachedIsNamed) {
  int port = 0;
  {
    const TcpListener gone;
    port = gone.port();
  }
  for (const std::string& address :
       {absl::StrCat("127.0.0.1:", port), std::string("unix:/nonexistent/socket"),
        "unix:" + std::string(200, 'x'), std::string("localhost:no-such-port")}) {
    const absl::Status status = Dial(address).status();
    EXPECT_EQ(KindOf(status), ErrorKind::kConnection) << address;
    EXPECT_NE(status.message().find("cannot reach chxd at " + address), absl::string_view::npos)
        << status;
  }
}

TEST(Dialer, RootsThatAreNoneSaySo) {
  for (const auto& [roots, got] :
       {std::pair<std::string, std::string>("/etc/ssl/ca.pem", "the name of a file"),
        {"text\nwithout any\n", "17 bytes without one"},
        {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "private key"},
        {std::string(kRoots) + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
         "damaged, number 2"}}) {
    const absl::Status status = Dialer::For("localhost:1", roots).status();
    EXPECT_EQ(KindOf(status), ErrorKind::kConnection) << roots;
    EXPECT_NE(status.message().find("tls_roots expects certificates in PEM"),
              absl::string_view::npos)
        << status;
    EXPECT_NE(status.message().find(got), absl::string_view::npos) << status;
  }
}

TEST(Dialer, OnlyARefusalSaysThatNobodyListens) {
  int port = 0;
  {
    const TcpListener gone;
    port = gone.port();
  }
  EXPECT_TRUE(Dialer::NobodyListens(Dial(absl::StrCat("127.0.0.1:", port)).status()));
  EXPECT_TRUE(Dialer::NobodyListens(Dial("unix:/nonexistent/socket").status()));
  const TcpListener silent;
  const absl::Status late =
      Dial(absl::StrCat("127.0.0.1:", silent.port()), milliseconds(50), kRoots).status();
  EXPECT_FALSE(late.ok());
  EXPECT_FALSE(Dialer::NobodyListens(late));
  EXPECT_FALSE(Dialer::NobodyListens(Dial("localhost:no-such-port").status()));
  EXPECT_FALSE(Dialer::NobodyListens(absl::OkStatus()));
}

TEST(Dialer, TcpSendsSmallMessagesAtOnceAndFindsDeadPeers) {
  const TcpListener listener;
  for (const char* host : {"127.0.0.1", "localhost"}) {
    const auto socket = Dial(absl::StrCat(host, ":", listener.port()));
    ASSERT_TRUE(socket.ok()) << socket.status();
    for (const auto& [level, option] : {std::pair<int, int>(IPPROTO_TCP, TCP_NODELAY),
                                        {IPPROTO_TCP, TCP_USER_TIMEOUT},
                                        {SOL_SOCKET, SO_KEEPALIVE}}) {
      int value = 0;
      socklen_t size = sizeof(value);
      ASSERT_EQ(getsockopt((*socket)->fd(), level, option, &value, &size), 0);
      EXPECT_GT(value, 0) << option;
    }
  }
}

// Accepted by the kernel, and then nothing.
TEST(Dialer, ASilentServerIsNotWaitedForForEver) {
  const TcpListener listener;
  const auto start = steady_clock::now();
  const absl::Status status =
      Dial(absl::StrCat("127.0.0.1:", listener.port()), milliseconds(200), kRoots).status();
  EXPECT_EQ(KindOf(status), ErrorKind::kConnection);
  EXPECT_NE(status.message().find("no answer in time"), absl::string_view::npos) << status;
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace chx
