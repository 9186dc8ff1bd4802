// TLS over TCP, by OpenSSL.
#ifndef CHX_CLIENT_TLS_SOCKET_H_
#define CHX_CLIENT_TLS_SOCKET_H_

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/socket.h"

namespace chx {

// What connections to one daemon share: the certificates that are trusted, and the client's own.
// Thread-safe.
class TlsContext {
 public:
  // `roots`: certificates in PEM.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Make(const std::string& roots);
  ~TlsContext();

  // The client's certificate chain and its key, in PEM: before the first connection.
  absl::Status UseCertificate(const std::string& chain, const std::string& key);

  // Takes over a connected, non-blocking socket, and returns it when the daemon has shown a
  // certificate for `host`, a name or an IP address.
  absl::StatusOr<std::unique_ptr<Socket>> Connect(
      int fd, const std::string& host, std::chrono::steady_clock::time_point deadline) const;

 private:
  explicit TlsContext(SSL_CTX* context) : context_(context) {}

  SSL_CTX* const context_;
};

// OpenSSL's object is for one thread at a time: a mutex is held around each call, none of which
// waits, so that one thread can receive while another sends.
class TlsSocket final : public Socket {
 public:
  TlsSocket(int fd, SSL* ssl) : Socket(fd), ssl_(ssl) {}
  ~TlsSocket() override;

  absl::Status Handshake(const std::string& host, std::chrono::steady_clock::time_point deadline);
  ssize_t Receive(char* out, size_t bytes, bool wait) override;
  ssize_t Send(const char* data, size_t bytes, bool wait, bool more) override;

 private:
  // A call that moves bytes: how many, or not more than 0, and why not.
  int Step(absl::FunctionRef<int(SSL* ssl)> call, int* error);

  Mutex mutex_;
  SSL* const ssl_ ABSL_PT_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_CLIENT_TLS_SOCKET_H_
