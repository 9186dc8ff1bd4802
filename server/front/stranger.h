// One connection from when it is accepted until it has shown the token.
#ifndef CHX_SERVER_FRONT_STRANGER_H_
#define CHX_SERVER_FRONT_STRANGER_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/front/hello.h"
#include "server/front/tls.h"

namespace chx::server {

// Reads no further than the Hello: of a connection without TLS, not even that, so that another
// process can take the socket as it is. Owned and used by the front's door.
class Stranger {
 public:
  // Takes the socket, which must not block. `tls` is null for a listener without.
  Stranger(uint64_t id, int socket, std::string address, std::shared_ptr<FrontTls> tls);
  ~Stranger();

  enum class Step { kWait, kGood, kGone };
  // Goes on as far as is possible now; after kGood and kGone there is no further step.
  Step Advance(const Guests& guests);

  const uint64_t id;
  const std::string address;
  const std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  int socket() const { return socket_; }
  bool spoken() const { return spoken_; }

  // After kGood. Without TLS, the stream is null and the socket has the Hello still to read; with,
  // `received` begins with it.
  int ReleaseSocket() { return std::exchange(socket_, -1); }
  std::unique_ptr<FrontTlsStream> ReleaseStream() { return std::move(stream_); }
  const std::string& received() const { return received_; }
  const Proof& proof() const { return proof_; }

 private:
  Step AdvancePlain(const Guests& guests);
  Step AdvanceTls(const Guests& guests);
  // Without TLS, and without waiting.
  void SendRefusal(HelloCheck why) const;

  int socket_;
  std::shared_ptr<FrontTls> tls_;
  std::unique_ptr<FrontTlsStream> stream_;  // with TLS, from the first byte on
  bool spoken_ = false;                     // something has come
  bool secure_ = false;                     // the handshake is done
  std::string received_;
  Proof proof_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_STRANGER_H_
