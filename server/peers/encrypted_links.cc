#include "server/peers/encrypted_links.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
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

#include "base/mutex.h"
#include "ops/error.h"

namespace chx::server {
namespace {

namespace asio = boost::asio;
using Socket = asio::generic::stream_protocol::socket;
using boost::system::error_code;

constexpr std::chrono::seconds kHandshakePatience(10);
// For what is on its way when one side has ended.
constexpr std::chrono::seconds kEndPatience(10);
constexpr std::chrono::seconds kLastPatience(1);
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

// How many there are of something.
struct Count {
  Mutex mutex;
  CondVar changed;
  int64_t number ABSL_GUARDED_BY(mutex) = 0;

  void Add(int64_t more) {
    const MutexLock lock(&mutex);
    number += more;
    changed.notify_all();
  }
};

// Both ways of one connection: between TCP, `outer`, and this side's end of a socket pair, `inner`.
// Each way waits until what it has read is written.
class Link final : public std::enable_shared_from_this<Link> {
 public:
  Link(asio::io_context* io, asio::ssl::context* tls, std::string key, int64_t bytes_of_key,
       Count* count)
      : count_(*count),
        key_(std::move(key)),
        bytes_of_key_(bytes_of_key),
        outer_(*io, *tls),
        inner_(*io),
        patience_(*io) {
    count_.Add(1);
  }
  ~Link() { count_.Add(-1); }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

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
    asio::post(outer_.get_executor(), [self = shared_from_this(), side] {
      // No certificate is good enough for whoever connects, and none is asked for if the other side
      // has the key.
      if (side == EncryptedLinks::Side::kConnects) {
        SSL_set_verify(self->outer_.native_handle(), SSL_VERIFY_PEER, nullptr);
      }
      self->CutAfter(kHandshakePatience);
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
    // Also while nothing can be written, and so nothing is read.
    inner_.async_wait(Socket::wait_error, [self = shared_from_this()](error_code failed) {
      if (!failed) self->CutAfter(kEndPatience);
    });
  }
  template <typename From, typename To>
  void Pass(From* from, To* to, Block* block) {
    from->async_read_some(asio::buffer(*block), [self = shared_from_this(), from, to, block](
                                                    error_code error, size_t size) {
      if (error) return self->Cut();
      if (block == &self->outgoing_) self->UseKeyFor(size);
      asio::async_write(*to, asio::buffer(*block, size),
                        [self, from, to, block](error_code failed, size_t /*written*/) {
                          // The other way may have something that has come before.
                          if (failed) return self->CutAfter(kEndPatience);
                          self->Pass(from, to, block);
                        });
    });
  }
  void UseKeyFor(size_t bytes) {
    encrypted_ += static_cast<int64_t>(bytes);
    if (encrypted_ < bytes_of_key_) return;
    encrypted_ = 0;
    SSL_key_update(outer_.native_handle(), SSL_KEY_UPDATE_NOT_REQUESTED);
  }
  void CutAfter(std::chrono::seconds time) {
    if (!outer_.next_layer().is_open()) return;
    patience_.expires_after(time);
    patience_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->Cut();
    });
  }
  void Cut() {
    patience_.cancel();
    for (Socket* socket : {&outer_.next_layer(), &inner_}) {
      error_code ignored;
      socket->shutdown(Socket::shutdown_both, ignored);
      socket->close(ignored);
    }
  }

  Count& count_;
  std::string key_;
  const int64_t bytes_of_key_;
  int64_t encrypted_ = 0;  // by the present one
  asio::ssl::stream<Socket> outer_;
  Socket inner_;
  asio::steady_timer patience_;
  Block incoming_;
  Block outgoing_;
};

// One thread, and the connections that it serves.
struct Loop {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::thread thread{[this] { io.run(); }};
};

}  // namespace

struct EncryptedLinks::State {
  int64_t bytes_of_key = 0;
  Count links;
  asio::ssl::context tls{asio::ssl::context::tlsv13};
  std::vector<std::unique_ptr<Loop>> loops;
  std::atomic<size_t> next{0};  // loop
};

EncryptedLinks::EncryptedLinks(int64_t bytes_of_key) : state_(std::make_unique<State>()) {
  state_->bytes_of_key = bytes_of_key;
  SSL_CTX* const context = state_->tls.native_handle();
  SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_psk_use_session_callback(context, UseKey);
  SSL_CTX_set_psk_find_session_callback(context, FindKey);
  const size_t count = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  for (size_t i = 0; i < count; ++i) {
    state_->loops.push_back(std::make_unique<Loop>());
  }
}

EncryptedLinks::~EncryptedLinks() {
  {
    const auto until = std::chrono::steady_clock::now() + kLastPatience;
    Count& links = state_->links;
    const MutexLock lock(&links.mutex);
    while (links.number > 0) {
      if (links.changed.wait_until(links.mutex, until) == std::cv_status::timeout) break;
    }
  }
  for (const auto& loop : state_->loops) loop->io.stop();
  for (const auto& loop : state_->loops) loop->thread.join();
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
    Loop& loop = *state_->loops[state_->next++ % state_->loops.size()];
    link =
        std::make_shared<Link>(&loop.io, &state_->tls, key, state_->bytes_of_key, &state_->links);
  } catch (const boost::system::system_error& error) {
    return MakeError(ErrorKind::kConnection, error.what());
  }
  CHX_RETURN_IF_ERROR(link->Take(std::move(connection), std::move(ours)));
  link->Start(side);
  return plain;
}

}  // namespace chx::server
