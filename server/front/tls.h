// TLS on a socket that does not block, for the front process. Nobody else in the daemon parses it.
#ifndef CHX_SERVER_FRONT_TLS_H_
#define CHX_SERVER_FRONT_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace chx::server {

struct FrontTlsFree {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* stream) const { SSL_free(stream); }
};

// In PEM. `client_ca`: who may sign certificates of clients; empty: none is asked for.
struct FrontTlsFiles {
  std::string cert;
  std::string key;
  std::string client_ca;
  // As messages name them.
  std::string cert_name = "text";
  std::string key_name = "text";
  std::string client_ca_name = "text";
};

// Certificate and key, for any number of streams: TLS 1.2 and newer, no renegotiation, compression,
// or sessions to take up again. Thread-safe once it is made.
class FrontTls {
 public:
  // INVALID_ARGUMENT names what of both is wrong, and why.
  static absl::StatusOr<std::shared_ptr<FrontTls>> Create(const FrontTlsFiles& files);
  SSL_CTX* get() const { return context_.get(); }
  // Of the daemon's own certificate; empty: now. Else why clients refuse it at this time.
  std::string WhyNotNow() const;

 private:
  std::unique_ptr<SSL_CTX, FrontTlsFree> context_;
};

// What a step on a socket came to. kWait: not now; kAgain: a record without data, there may be
// more; kEnd: the peer has said all; kBroken: no more can be had.
enum class IoResult { kDone, kWait, kAgain, kEnd, kBroken };

// The server's end of one connection. The socket stays the caller's. Used by one thread at a time.
class FrontTlsStream {
 public:
  // An unusable stream, whose steps say kBroken, if there is no memory for one.
  FrontTlsStream(const FrontTls& context, int socket);

  IoResult Handshake();
  // One record at most, so that a peer of endless empty ones does not hold the thread.
  IoResult Read(char* buffer, size_t size, size_t* received);
  // All or, with kWait, nothing: to be called again with the same bytes.
  IoResult Write(const char* data, size_t size);
  // Whether Read may have more without anything new on the socket.
  bool HasPending() const { return stream_ != nullptr && SSL_has_pending(stream_.get()) == 1; }
  // Of the client's certificate, after the handshake, as RFC 2253 writes it: "CN=vision,O=lab".
  // Empty: it has shown none. One that is not good ends the handshake.
  std::string VerifiedSubject() const;
  // Tells the peer, if that can be done at once, that nothing follows.
  void End();

 private:
  IoResult ResultOf(int returned);

  std::unique_ptr<SSL, FrontTlsFree> stream_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_TLS_H_
