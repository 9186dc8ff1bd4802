// TLS on connections between daemons.
#ifndef CHX_SERVER_PEERS_ENCRYPTED_LINKS_H_
#define CHX_SERVER_PEERS_ENCRYPTED_LINKS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/owned_fd.h"

namespace chx::server {

// Threads that encrypt what others write to plain sockets, and decrypt what these read.
// Thread-safe.
class EncryptedLinks {
 public:
  enum class Side { kConnects, kAccepts };
  // With one key so many bytes are encrypted; TLS 1.3 with AES-GCM allows some six times as many.
  static constexpr int64_t kBytesOfKey = int64_t{64} << 30;

  explicit EncryptedLinks(int64_t bytes_of_key = kBytesOfKey);
  // Waits a second at most for what has been written to plain sockets that are closed, and cuts all
  // connections.
  ~EncryptedLinks();
  EncryptedLinks(const EncryptedLinks&) = delete;
  EncryptedLinks& operator=(const EncryptedLinks&) = delete;

  // TLS 1.3 with the key that both sides of the connection know, of 32 bytes, in place of
  // certificates. Returns at once the socket for what is not encrypted: who reads there waits for
  // the handshake. If either socket is cut so is the other, once it has got what came before, or
  // after some seconds.
  absl::StatusOr<OwnedFd> Encrypt(OwnedFd connection, Side side, const std::string& key);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PEERS_ENCRYPTED_LINKS_H_
