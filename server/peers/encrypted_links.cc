#include "server/peers/encrypted_links.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/error.h"

namespace chx::server {
namespace {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

constexpr std::chrono::seconds kHandshakePatience(10);
constexpr size_t kMostThreads = 4;
// Both sides have it, and its hash is that of the handshake of connections.
constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};

// Where a connection's SSL has its key; asio has the field for applications.
int KeyIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// A session whose secret is the key, as OpenSSL wants it; null without memory.
SSL_SESSION* SessionWith(SSL* ssl) {
  const auto& key = *static_cast<const std::string*>(SSL_get_ex_data(ssl, KeyIndex()));
  SSL_SESSION* const session = SSL_SESSION_new();
  if (session == nullptr) return nullptr;
  if (SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                  key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int UseKey(SSL* ssl, const EVP_MD* /*hash*/, const unsigned char** id, size_t* id_size,
           SSL_SESSION** session) {
  static constexpr unsigned char kName[] = "chxd";  // each connection has a key of its own
  *id = kName;
  *id_size = sizeof(kName) - 1;
  *session = SessionWith(ssl);
  return *session != nullptr ? 1 : 0;
}

int FindKey(SSL* ssl, const unsigned char* /*id*/, size_t /*id_size*/, SSL_SESSION** session) {
  *session = SessionWith(ssl);
  return *session != nullptr ? 1 : 0;
}

// Both ways of one connection: each waits until what it has read is written.
class Link final : public std::enable_shared_from_this<Link> {
 public:
  Link(asio::io_context* io, asio::ssl::context* tls, std::string key)
      : strand_(asio::make_strand(*io)),
        key_(std::move(key)),
        outer_(strand_, *tls),
        inner_(strand_),
        patience_(strand_) {}

  absl::Status Take(OwnedFd outer, OwnedFd inner) {
    if (SSL_set_ex_data(outer_.native_handle(), KeyIndex(), &key_) != 1) {
      return absl::InternalError("no memory for TLS");
    }
    sockaddr_storage name = {};
    socklen_t size = sizeof(name);
    error_code error;
    getsockname(outer.get(), reinterpret_cast<sockaddr*>(&name), &size);
    outer_.next_layer().assign({name.ss_family, 0}, outer.get(), error);
    if (!error) static_cast<void>(outer.Release());
    if (!error) inner_.assign({AF_UNIX, 0}, inner.get(), error);
    if (!error) static_cast<void>(inner.Release());
    return error ? absl::InternalError(error.message()) : absl::OkStatus();
  }

  void Start(EncryptedLinks::Side side) {
    asio::post(strand_, [self = shared_from_this(), side] {
      // No certificate is good enough for whoever connects, and none is asked for if the other side
      // has the key.
      if (side == EncryptedLinks::Side::kConnects) {
        SSL_set_verify(self->outer_.native_handle(), SSL_VERIFY_PEER, nullptr);
      }
      self->patience_.expires_after(kHandshakePatience);
      self->patience_.async_wait([self](error_code error) {
        if (!error) self->Cut();
      });
      self->outer_.async_handshake(side == EncryptedLinks::Side::kConnects
                                       ? asio::ssl::stream_base::client
                                       : asio::ssl::stream_base::server,
                                   [self](error_code error) { self->Begin(error); });
    });
  }

 private:
  using Block = std::array<char, 64 << 10>;

  void Begin(error_code error) {
    patience_.cancel();
    // Without the key there is no handshake: no side has a certificate.
    if (error || SSL_session_reused(outer_.native_handle()) != 1) return Cut();
    Pass(&outer_, &inner_, &incoming_);
    Pass(&inner_, &outer_, &outgoing_);
  }
  template <typename From, typename To>
  void Pass(From* from, To* to, Block* block) {
    from->async_read_some(asio::buffer(*block), [self = shared_from_this(), from, to, block](
                                                    error_code error, size_t size) {
      if (error) return self->Cut();
      asio::async_write(*to, asio::buffer(*block, size),
                        [self, from, to, block](error_code failed, size_t /*written*/) {
                          if (failed) return self->Cut();
                          self->Pass(from, to, block);
                        });
    });
  }
  void Cut() {
    for (Socket* socket : {&outer_.next_layer(), &inner_}) {
      error_code ignored;
      socket->shutdown(Socket::shutdown_both, ignored);
      socket->close(ignored);
    }
  }

  const asio::strand<asio::io_context::executor_type> strand_;
  std::string key_;
  asio::ssl::stream<Socket> outer_;
  Socket inner_;
  asio::steady_timer patience_;
  Block incoming_;
  Block outgoing_;
};

}  // namespace

struct EncryptedLinks::State {
  asio::ssl::context tls{asio::ssl::context::tlsv13};
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::vector<std::thread> threads;
};

EncryptedLinks::EncryptedLinks() : state_(std::make_unique<State>()) {
  SSL_CTX* const context = state_->tls.native_handle();
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_psk_use_session_callback(context, UseKey);
  SSL_CTX_set_psk_find_session_callback(context, FindKey);
  const size_t count = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  for (size_t i = 0; i < count; ++i) {
    state_->threads.emplace_back([state = state_.get()] { state->io.run(); });
  }
}

EncryptedLinks::~EncryptedLinks() {
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
}

absl::StatusOr<OwnedFd> EncryptedLinks::Encrypt(OwnedFd connection, Side side,
                                                const std::string& key) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return MakeError(ErrorKind::kConnection, std::strerror(errno));
  }
  OwnedFd plain(ends[0]);
  OwnedFd ours(ends[1]);
  std::shared_ptr<Link> link;
  try {
    link = std::make_shared<Link>(&state_->io, &state_->tls, key);
  } catch (const boost::system::system_error& error) {
    return MakeError(ErrorKind::kConnection, error.what());
  }
  CHX_RETURN_IF_ERROR(link->Take(std::move(connection), std::move(ours)));
  link->Start(side);
  return plain;
}

}  // namespace chx::server
