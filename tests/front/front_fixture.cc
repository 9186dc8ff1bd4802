#include "tests/front/front_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "base/sanitizers.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"
#include "proto/messages.h"

namespace chx::server {
namespace {

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

// A certificate that signs itself, and its key.
void MakeCertificate(std::string* cert, std::string* key) {
  EVP_PKEY* const pair = EVP_RSA_gen(2048);
  X509* const x509 = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509), -60);
  X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
  X509_set_pubkey(x509, pair);
  X509_NAME* const name = X509_get_subject_name(x509);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("chxd"), -1, -1, 0);
  X509_set_issuer_name(x509, name);
  X509_sign(x509, pair, EVP_sha256());
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, x509);
  *cert = TextOf(bio);
  bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, pair, nullptr, nullptr, 0, nullptr, nullptr);
  *key = TextOf(bio);
  X509_free(x509);
  EVP_PKEY_free(pair);
}

}  // namespace

std::string HelloFrame(const std::string& token) {
  v1::Hello hello;
  hello.set_min_protocol(wire::kProtocolVersion);
  hello.set_max_protocol(wire::kProtocolVersion);
  hello.set_token(token);
  std::string frame;
  EXPECT_TRUE(AppendFrame(FrameKind::kHello, hello, &frame));
  return frame;
}

Client::Client(int port, bool tls, const char* source)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  inet_pton(AF_INET, source, &own.sin_addr);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval timeout = {10, 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  connected_ = bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0 &&
               connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  if (!connected_ || !tls) return;
  context_ = SSL_CTX_new(TLS_client_method());
  stream_ = SSL_new(context_);
  SSL_set_fd(stream_, socket_);
  connected_ = SSL_connect(stream_) == 1;
}

Client::~Client() {
  SSL_free(stream_);
  SSL_CTX_free(context_);
  close(socket_);
}

bool Client::Send(const std::string& bytes) {
  if (stream_ != nullptr) {
    return SSL_write(stream_, bytes.data(), static_cast<int>(bytes.size())) ==
           static_cast<int>(bytes.size());
  }
  return send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

std::string Client::Receive(size_t bytes) {
  std::string received(bytes, '\0');
  size_t done = 0;
  while (done < bytes) {
    errno = 0;
    const ssize_t size = stream_ != nullptr
                             ? SSL_read(stream_, &received[done], static_cast<int>(bytes - done))
                             : recv(socket_, &received[done], bytes - done, 0);
    timed_out_ = errno == EAGAIN;
    if (size <= 0) break;
    done += static_cast<size_t>(size);
  }
  received.resize(done);
  return received;
}

FrontTest::FrontTest() {
  signal(SIGPIPE, SIG_IGN);  // SSL_write's
  MakeCertificate(&options_.tls_cert, &options_.tls_key);
  options_.guests = FrontGuests::ByTokens({kToken});
  options_.program = std::getenv("HELPER");
  options_.listeners = {{"127.0.0.1:0", false}, {"127.0.0.1:0", true}};
}

FrontTest::~FrontTest() {
  supervisor_ = nullptr;
  MutexLock lock(&mutex_);
  for (auto& [socket, thread] : echoes_) {
    shutdown(socket, SHUT_RDWR);
    thread.join();
    close(socket);
  }
}

void FrontTest::Start() {
  auto supervisor =
      Supervisor::Start(options_, [this](int socket, const PeerInfo& peer) { Echo(socket, peer); });
  ASSERT_TRUE(supervisor.ok()) << supervisor.status();
  supervisor_ = *std::move(supervisor);
  for (const bool tls : {false, true}) ASSERT_NE(Authenticated(tls), nullptr);
  MutexLock lock(&mutex_);
  peers_.clear();
}

void FrontTest::Echo(int socket, const PeerInfo& peer) {
  MutexLock lock(&mutex_);
  peers_.push_back(peer);
  echoes_.emplace_back(socket, [socket] {
    std::string buffer(64 << 10, '\0');
    for (;;) {
      const ssize_t size = recv(socket, &buffer[0], buffer.size(), 0);
      if (size <= 0 || send(socket, buffer.data(), static_cast<size_t>(size), MSG_NOSIGNAL) != size)
        break;
    }
    shutdown(socket, SHUT_RDWR);
  });
}

std::vector<PeerInfo> FrontTest::peers() {
  MutexLock lock(&mutex_);
  return peers_;
}

std::unique_ptr<Client> FrontTest::Authenticated(bool tls) {
  auto client = std::make_unique<Client>(tls ? tls_port() : plain_port(), tls);
  if (!client->connected() || !client->Echoes(HelloFrame(kToken))) return nullptr;
  return client;
}

size_t FrontTest::FrontBytes() const {
  if (kSanitized) return 0;  // shadow memory is resident, too
  std::ifstream file("/proc/" + std::to_string(supervisor_->pid()) + "/status");
  for (std::string word; file >> word;) {
    size_t kilobytes = 0;
    if (word == "VmRSS:" && file >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

}  // namespace chx::server
