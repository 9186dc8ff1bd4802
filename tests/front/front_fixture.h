// A real front process before a daemon that only echoes, and clients of it.
#ifndef CHX_TESTS_FRONT_FRONT_FIXTURE_H_
#define CHX_TESTS_FRONT_FRONT_FIXTURE_H_

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "server/front/supervisor.h"

namespace chx::server {

inline constexpr char kToken[] = "correct horse battery staple";

std::string HelloFrame(const std::string& token);

// A blocking connection to a port of this machine, with TLS or without. Reads give up after 10 s.
class Client {
 public:
  explicit Client(int port, bool tls = false, const char* source = "127.0.0.1");
  ~Client();
  Client(const Client&) = delete;

  bool connected() const { return connected_; }
  bool Send(const std::string& bytes);
  // Less than `bytes` at the connection's end.
  std::string Receive(size_t bytes);
  // Whether the other side closes within the time that reads have.
  bool IsClosed() { return Receive(1).empty() && !timed_out_; }
  // Sends, and expects the same back.
  bool Echoes(const std::string& bytes) { return Send(bytes) && Receive(bytes.size()) == bytes; }
  int socket() const { return socket_; }

 private:
  int socket_ = -1;
  bool connected_ = false;
  bool timed_out_ = false;
  SSL_CTX* context_ = nullptr;
  SSL* stream_ = nullptr;
};

class FrontTest : public ::testing::Test {
 protected:
  FrontTest();
  ~FrontTest() override;

  // Two listeners: without TLS, and with. Waits for the front.
  void Start();
  int plain_port() const { return supervisor_->ports()[0]; }
  int tls_port() const { return supervisor_->ports()[1]; }
  // A client that has shown the token, and had its Hello back.
  std::unique_ptr<Client> Authenticated(bool tls);
  std::vector<PeerInfo> peers();
  // What the front has in memory; 0: it cannot be read, or says nothing under a sanitizer.
  size_t FrontBytes() const;

  FrontOptions options_;
  std::unique_ptr<Supervisor> supervisor_;

 private:
  void Echo(int socket, const PeerInfo& peer);

  Mutex mutex_;
  std::vector<PeerInfo> peers_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<int, std::thread>> echoes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_TESTS_FRONT_FRONT_FIXTURE_H_
