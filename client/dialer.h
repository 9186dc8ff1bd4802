// Connects to a daemon's address.
#ifndef CHX_CLIENT_DIALER_H_
#define CHX_CLIENT_DIALER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/socket.h"

namespace chx {

class TlsContext;

// Thread-safe.
class Dialer {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // "unix:PATH" or "HOST:PORT"; with `tls_roots`, certificates in PEM, TLS over TCP, and with
  // `tls_cert` and `tls_key` a certificate of the client's own.
  static absl::StatusOr<std::unique_ptr<Dialer>> For(const std::string& address,
                                                     const std::string& tls_roots,
                                                     const std::string& tls_cert = "",
                                                     const std::string& tls_key = "");
  ~Dialer();

  // kConnection errors say why there is no connection, and what to do.
  absl::StatusOr<std::unique_ptr<Socket>> Dial(TimePoint deadline) const;
  // Whether a Dial failed because the kernel there says that no process listens.
  static bool NobodyListens(const absl::Status& dialed);
  // Finds peers that went without a word, by the time that a session lives without a stream.
  void set_lease(std::chrono::milliseconds lease) { lease_ = lease; }
  // Whether connections are TCP without TLS, as no daemon serves them off its loopback.
  bool is_plain_tcp() const { return path_.empty() && tls_ == nullptr; }

 private:
  explicit Dialer(std::string address);
  absl::StatusOr<std::unique_ptr<Socket>> DialTcp(TimePoint deadline) const;

  const std::string address_;
  std::string path_;  // of the Unix socket; empty: TCP
  std::string host_;
  std::string port_;
  std::unique_ptr<TlsContext> tls_;  // null: plaintext
  std::chrono::milliseconds lease_{30000};
};

}  // namespace chx

#endif  // CHX_CLIENT_DIALER_H_
