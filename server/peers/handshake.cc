#include "server/peers/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ops/error.h"

namespace chx::server {
namespace {

constexpr char kMagic[] = {'c', 'h', 'x', 'p', 'e', 'e', 'r', '2'};
constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;

struct Opening {
  char magic[sizeof(kMagic)];
  GroupNumber group;
  int32_t from;
  uint32_t encrypted;
  uint8_t nonce[kNonceBytes];
};

struct Answer {
  uint8_t nonce[kNonceBytes];
  uint8_t mac[kMacBytes];
};

struct Proof {
  uint8_t mac[kMacBytes];
};

static_assert(sizeof(Opening) == 64 && sizeof(Answer) == 64 && sizeof(Proof) == 32,
              "as on the wire");

void Hmac(absl::string_view key, absl::string_view text, uint8_t* mac) {
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
}

// `side`: else one side's could be sent back as the other's.
void MacOf(absl::string_view key, absl::string_view side, const Opening& opening,
           const Answer& answer, uint8_t* mac) {
  std::string text(side);
  text.append(reinterpret_cast<const char*>(&opening), sizeof(opening));
  text.append(reinterpret_cast<const char*>(answer.nonce), kNonceBytes);
  Hmac(key, text, mac);
}

std::string ConnectionKey(absl::string_view key, const Opening& opening, const Answer& answer) {
  uint8_t mac[kMacBytes];
  MacOf(key, "encryption", opening, answer, mac);
  return std::string(reinterpret_cast<const char*>(mac), kMacBytes);
}

absl::Status AnotherEncryption() {
  return MakeError(ErrorKind::kConnection, "the other side has another --peer-encryption");
}

bool SameMac(const uint8_t* a, const uint8_t* b) { return CRYPTO_memcmp(a, b, kMacBytes) == 0; }

absl::Status SetTimeout(int socket, int option, std::chrono::microseconds timeout) {
  timeval value = {};
  value.tv_sec = static_cast<time_t>(timeout.count() / 1000000);
  value.tv_usec = static_cast<suseconds_t>(timeout.count() % 1000000);
  return setsockopt(socket, SOL_SOCKET, option, &value, sizeof(value)) == 0
             ? absl::OkStatus()
             : absl::InternalError(std::strerror(errno));
}

absl::Status TimedOut() {
  return MakeError(ErrorKind::kTimeout, "the other side did not answer in time");
}

// A wait until the deadline at most, for one call.
absl::Status LimitTo(int socket, int option, Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
      deadline - std::chrono::steady_clock::now());
  if (left.count() <= 0) return TimedOut();
  return SetTimeout(socket, option, left);
}

template <typename T>
absl::Status Send(int socket, const T& message, Deadline deadline) {
  const auto* data = reinterpret_cast<const char*>(&message);
  for (size_t sent = 0; sent < sizeof(T);) {
    CHX_RETURN_IF_ERROR(LimitTo(socket, SO_SNDTIMEO, deadline));
    const ssize_t n = send(socket, data + sent, sizeof(T) - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return MakeError(ErrorKind::kConnection, "the connection was cut");
    sent += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status Receive(int socket, T* message, Deadline deadline) {
  auto* const data = reinterpret_cast<char*>(message);
  for (size_t received = 0; received < sizeof(T);) {
    CHX_RETURN_IF_ERROR(LimitTo(socket, SO_RCVTIMEO, deadline));
    const ssize_t n = recv(socket, data + received, sizeof(T) - received, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return MakeError(ErrorKind::kConnection, "the connection was cut");
    received += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status NoTimeouts(int socket) {
  CHX_RETURN_IF_ERROR(SetTimeout(socket, SO_SNDTIMEO, {}));
  return SetTimeout(socket, SO_RCVTIMEO, {});
}

}  // namespace

absl::StatusOr<Proved> IntroduceTo(int socket, const PeerPurpose& purpose, bool encrypted,
                                   absl::string_view key, Deadline deadline, bool* unheard) {
  Opening opening = {};
  std::copy(std::begin(kMagic), std::end(kMagic), opening.magic);
  opening.group = purpose.group;
  opening.from = purpose.from;
  opening.encrypted = encrypted ? 1 : 0;
  const std::string nonce = RandomBytes(kNonceBytes);
  std::copy(nonce.begin(), nonce.end(), opening.nonce);
  Answer answer = {};
  absl::Status status = Send(socket, opening, deadline);
  if (status.ok()) status = Receive(socket, &answer, deadline);
  *unheard = !status.ok();
  CHX_RETURN_IF_ERROR(status);
  uint8_t expected[kMacBytes];
  MacOf(key, "server", opening, answer, expected);
  if (!SameMac(expected, answer.mac)) {
    opening.encrypted ^= 1;  // as the other side expects it
    MacOf(key, "server", opening, answer, expected);
    if (SameMac(expected, answer.mac)) return AnotherEncryption();
    return MakeError(ErrorKind::kConnection, "the other side has another secret");
  }
  Proof proof = {};
  MacOf(key, "client", opening, answer, proof.mac);
  CHX_RETURN_IF_ERROR(Send(socket, proof, deadline));
  CHX_RETURN_IF_ERROR(NoTimeouts(socket));
  return Proved{purpose, ConnectionKey(key, opening, answer)};
}

absl::StatusOr<Proved> LetIn(int socket, bool encrypted, const KeyFor& key_for, Deadline deadline) {
  Opening opening = {};
  CHX_RETURN_IF_ERROR(Receive(socket, &opening, deadline));
  if (std::memcmp(opening.magic, kMagic, sizeof(kMagic)) != 0) {
    return MakeError(ErrorKind::kConnection, "no daemon of this version");
  }
  const PeerPurpose purpose = {opening.group, opening.from};
  const uint32_t wanted = std::exchange(opening.encrypted, encrypted ? 1 : 0);
  CHX_ASSIGN_OR_RETURN(const std::string key, key_for(purpose));
  Answer answer = {};
  const std::string nonce = RandomBytes(kNonceBytes);
  std::copy(nonce.begin(), nonce.end(), answer.nonce);
  MacOf(key, "server", opening, answer, answer.mac);
  CHX_RETURN_IF_ERROR(Send(socket, answer, deadline));
  if (wanted != opening.encrypted) return AnotherEncryption();
  Proof proof = {};
  CHX_RETURN_IF_ERROR(Receive(socket, &proof, deadline));
  uint8_t expected[kMacBytes];
  MacOf(key, "client", opening, answer, expected);
  if (!SameMac(expected, proof.mac)) {
    return MakeError(ErrorKind::kConnection, "the other side has another secret");
  }
  CHX_RETURN_IF_ERROR(NoTimeouts(socket));
  return Proved{purpose, ConnectionKey(key, opening, answer)};
}

std::string DeriveKey(absl::string_view peers_secret, absl::string_view group_key) {
  uint8_t mac[kMacBytes];
  Hmac(peers_secret, group_key, mac);
  return std::string(reinterpret_cast<const char*>(mac), kMacBytes);
}

std::string RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  // So few bytes come at once, as soon as the system has any randomness.
  while (getrandom(&bytes[0], size, 0) != static_cast<ssize_t>(size)) {
  }
  return bytes;
}

}  // namespace chx::server
