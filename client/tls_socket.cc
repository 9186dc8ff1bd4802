#include "client/tls_socket.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/tls_errors.h"

namespace chx {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// What a handshake that is under way finds out about the peer's certificate.
struct Verification {
  std::string host;
  std::string complaint;
};

int VerificationIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// Only here is the certificate still there when it is refused.
int OnVerify(int accepted, X509_STORE_CTX* store) {
  if (accepted == 1) return 1;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const verification = static_cast<Verification*>(SSL_get_ex_data(ssl, VerificationIndex()));
  if (verification != nullptr) {
    verification->complaint =
        WhyUntrusted(X509_STORE_CTX_get_error(store), X509_STORE_CTX_get_current_cert(store),
                     verification->host);
  }
  return 0;
}

// What is in the text, which is to have certificates and has none.
std::string WithoutCertificate(const std::string& roots) {
  if (roots.find('\n') == std::string::npos && roots.size() < 4096) {
    return "one line, which may be the name of a file";
  }
  const bool key = roots.find("PRIVATE KEY-----") != std::string::npos;
  return absl::StrCat(roots.size(), " bytes", key ? " with a private key" : "", " without one");
}

int FdOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int AfterCall(BIO* bio, ssize_t moved, void (*retry)(BIO*)) {
  BIO_clear_retry_flags(bio);
  if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) retry(bio);
  return static_cast<int>(moved);
}

// As OpenSSL's own for sockets, but without SIGPIPE.
BIO_METHOD* SocketMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "chx socket");
    BIO_meth_set_read(made, [](BIO* bio, char* out, int bytes) {
      return AfterCall(bio, recv(FdOf(bio), out, static_cast<size_t>(bytes), MSG_DONTWAIT),
                       [](BIO* b) { BIO_set_retry_read(b); });
    });
    BIO_meth_set_write(made, [](BIO* bio, const char* data, int bytes) {
      return AfterCall(
          bio, send(FdOf(bio), data, static_cast<size_t>(bytes), MSG_DONTWAIT | MSG_NOSIGNAL),
          [](BIO* b) { BIO_set_retry_write(b); });
    });
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {  // NOLINT
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  return method;
}

// Whether an error of OpenSSL's says that the socket has nothing, or no room, just now.
bool IsWait(int error) { return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE; }

bool IsIpAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

// Waits for what the last call of OpenSSL has asked for: as poll.
int WaitFor(int fd, int error, int timeout_ms) {
  const auto events = static_cast<int16_t>(error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN);
  pollfd state = {fd, events, 0};
  return poll(&state, 1, timeout_ms);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Make(const std::string& roots) {
  ERR_clear_error();
  std::unique_ptr<TlsContext> context(new TlsContext(SSL_CTX_new(TLS_client_method())));
  SSL_CTX_set_min_proto_version(context->context_, TLS1_2_VERSION);
  SSL_CTX_set_verify(context->context_, SSL_VERIFY_PEER, OnVerify);
  SSL_CTX_set_mode(context->context_,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  BIO* const text = BIO_new_mem_buf(roots.data(), static_cast<int>(roots.size()));
  int count = 0;
  while (X509* const certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr)) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context->context_), certificate);
    X509_free(certificate);
    ++count;
  }
  BIO_free(text);
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (count == 0 && at_end) {
    return absl::InvalidArgumentError(
        absl::StrCat("[connect] tls_roots expects certificates in PEM, text with -----BEGIN "
                     "CERTIFICATE-----, got ",
                     WithoutCertificate(roots)));
  }
  if (!at_end) {
    return absl::InvalidArgumentError(absl::StrCat(
        "[connect] tls_roots expects certificates in PEM, got one that is damaged, number ",
        count + 1));
  }
  return context;
}

absl::Status TlsContext::UseCertificate(const std::string& chain, const std::string& key) {
  ERR_clear_error();
  const auto text_of = [](const std::string& text) {
    return std::unique_ptr<BIO, int (*)(BIO*)>(
        BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  };
  // A passphrase has nobody to ask.
  const auto nobody = [](char*, int, int, void*) { return 0; };
  const auto certificates = text_of(chain);
  int count = 0;
  while (X509* const next = PEM_read_bio_X509(certificates.get(), nullptr, nobody, nullptr)) {
    const bool used = count++ == 0 ? SSL_CTX_use_certificate(context_, next) == 1
                                   : SSL_CTX_add1_chain_cert(context_, next) == 1;
    X509_free(next);
    if (!used) count = 0;
    if (!used) break;
  }
  if (count == 0) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        "[connect] tls_cert expects the client's certificate in PEM, text with -----BEGIN "
        "CERTIFICATE-----");
  }
  const auto key_text = text_of(key);
  const std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> pair(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nobody, nullptr), EVP_PKEY_free);
  const bool fits = pair != nullptr && SSL_CTX_use_PrivateKey(context_, pair.get()) == 1 &&
                    SSL_CTX_check_private_key(context_) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "[connect] tls_key expects the key of tls_cert's certificate, in PEM and not encrypted");
}

TlsContext::~TlsContext() { SSL_CTX_free(context_); }

absl::StatusOr<std::unique_ptr<Socket>> TlsContext::Connect(int fd, const std::string& host,
                                                            TimePoint deadline) const {
  ERR_clear_error();
  SSL* const ssl = SSL_new(context_);
  auto socket = std::make_unique<TlsSocket>(fd, ssl);
  if (IsIpAddress(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set1_host(ssl, host.c_str());
    SSL_set_tlsext_host_name(ssl, host.c_str());
  }
  BIO* const bio = BIO_new(SocketMethod());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  const absl::Status status = socket->Handshake(host, deadline);
  if (!status.ok()) return status;
  return std::unique_ptr<Socket>(std::move(socket));
}

TlsSocket::~TlsSocket() { SSL_free(ssl_); }

absl::Status TlsSocket::Handshake(const std::string& host, TimePoint deadline) {
  MutexLock lock(&mutex_);
  Verification verification = {host, ""};
  for (;;) {
    ERR_clear_error();
    SSL_set_ex_data(ssl_, VerificationIndex(), &verification);
    const int done = SSL_connect(ssl_);
    SSL_set_ex_data(ssl_, VerificationIndex(), nullptr);
    if (done == 1) return absl::OkStatus();
    const int error = SSL_get_error(ssl_, done);
    if (!IsWait(error)) {
      return absl::UnavailableError(verification.complaint.empty() ? WhyNoHandshake()
                                                                   : verification.complaint);
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return absl::UnavailableError("TLS: no answer in time");
    WaitFor(fd(), error, static_cast<int>(left.count()));
  }
}

int TlsSocket::Step(absl::FunctionRef<int(SSL*)> call, int* error) {
  MutexLock lock(&mutex_);
  ERR_clear_error();
  const int moved = call(ssl_);
  if (moved <= 0) *error = SSL_get_error(ssl_, moved);
  return moved;
}

ssize_t TlsSocket::Receive(char* out, size_t bytes, bool wait) {
  const auto most = static_cast<int>(std::min<size_t>(bytes, std::numeric_limits<int>::max()));
  for (;;) {
    int error = 0;
    const int received = Step([out, most](SSL* ssl) { return SSL_read(ssl, out, most); }, &error);
    if (received > 0) return received;
    if (!IsWait(error)) {
      errno = 0;
      return error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
    }
    const int ready = wait ? WaitFor(fd(), error, kSocketPatienceMs) : 0;
    if (ready > 0) continue;
    if (ready == 0) errno = EAGAIN;
    return -1;
  }
}

ssize_t TlsSocket::Send(const char* data, size_t bytes, bool wait, bool more) {
  const auto most = static_cast<int>(std::min<size_t>(bytes, std::numeric_limits<int>::max()));
  for (;;) {
    int error = 0;
    const int sent = Step([data, most](SSL* ssl) { return SSL_write(ssl, data, most); }, &error);
    if (sent > 0) return sent;
    if (!IsWait(error)) {
      errno = EPIPE;
      return -1;
    }
    if (!wait) {
      errno = EAGAIN;
      return -1;
    }
    WaitFor(fd(), error, kSocketPatienceMs);
  }
}

}  // namespace chx
