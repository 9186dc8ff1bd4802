// How two daemons prove to each other that they know a secret, without saying it.
//
// Opening (client), Answer (server), Proof (client): structs as they are, little-endian. Each side
// gives a random number, and shows HMAC-SHA256 of both by the key. What a stranger sends is
// compared, and never parsed. Where both sides want it TLS follows (encrypted_links.h), by a key of
// the same origin.
#ifndef CHX_SERVER_PEERS_HANDSHAKE_H_
#define CHX_SERVER_PEERS_HANDSHAKE_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chx::server {

using Deadline = std::chrono::steady_clock::time_point;

// 16 bytes; all 0: the connection is not of a group, but about groups.
using GroupNumber = std::array<uint8_t, 16>;

// What a connection is for.
struct PeerPurpose {
  GroupNumber group = {};
  int32_t from = 0;  // the connecting daemon's position in the group

  bool about_groups() const { return group == GroupNumber{}; }
};

// What a side knows once the other one has proved itself.
struct Proved {
  PeerPurpose purpose;
  std::string connection_key;  // 32 bytes that only these two know, of this connection
};

// The key for what it is for; an error: such connections are not accepted.
using KeyFor = std::function<absl::StatusOr<std::string>(const PeerPurpose& purpose)>;

// The connecting side; both have to agree on `encrypted`. The socket is a blocking one; its
// timeouts are changed. *unheard: the other side has said nothing.
absl::StatusOr<Proved> IntroduceTo(int socket, const PeerPurpose& purpose, bool encrypted,
                                   absl::string_view key, Deadline deadline, bool* unheard);
// The accepting side.
absl::StatusOr<Proved> LetIn(int socket, bool encrypted, const KeyFor& key_for, Deadline deadline);

// For a group's connections: only who knows both has it.
std::string DeriveKey(absl::string_view peers_secret, absl::string_view group_key);
// Random bytes for keys and numbers.
std::string RandomBytes(size_t size);

}  // namespace chx::server

#endif  // CHX_SERVER_PEERS_HANDSHAKE_H_
