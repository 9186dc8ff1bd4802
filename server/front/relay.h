// Carries the bytes of one authenticated peer between its TLS connection and the daemon.
#ifndef CHX_SERVER_FRONT_RELAY_H_
#define CHX_SERVER_FRONT_RELAY_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/front/tls.h"

namespace chx::server {

// Holds at most a record for either direction, and none while nothing waits: where one side does
// not take its bytes, the other's are not read. Owned and used by its RelayLoop.
class Relay {
 public:
  static constexpr size_t kBytes = 16 << 10;  // a TLS record's
  // How long a peer may take for the last bytes after the daemon has closed.
  static constexpr std::chrono::seconds kLinger{2};

  // Takes both sockets, which must not block. `received` goes to the daemon first.
  Relay(int remote, std::unique_ptr<FrontTlsStream> stream, int local, std::string received);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  enum class Way { kUp, kDown, kBoth };
  // Moves what can be moved now, up to a bound that keeps others from waiting long. `buffer` has
  // kBytes. False: it is over.
  bool Pump(Way way, char* buffer);
  // There is more to do without anything new on the sockets.
  bool again() const { return again_; }
  // The daemon has closed its end; what it wrote before is still to be carried. Its end of the
  // relay needs no watching any more.
  void SetLocalHungUp() { local_hung_up_ = true; }
  // What to wait for, as epoll's events.
  uint32_t RemoteEvents() const;
  uint32_t LocalEvents() const;
  // The daemon is done: the relay ends when the peer is, or after kLinger.
  bool lingers() const { return local_ended_; }
  bool Expired(std::chrono::steady_clock::time_point now) const {
    return local_ended_ && now > local_end_ + kLinger;
  }

  int remote() const { return remote_; }
  int local() const { return local_; }
  // What epoll has been told to wait for: the loop's.
  uint32_t remote_watched = 0;
  uint32_t local_watched = 0;

 private:
  // False: the peer's connection is broken.
  bool PumpUp(char* buffer);
  bool PumpDown(char* buffer);
  void SendUp(const char* data, size_t size);

  const int remote_;
  const int local_;
  std::unique_ptr<FrontTlsStream> stream_;
  std::string up_;    // on its way to the daemon
  std::string down_;  // on its way to the peer
  bool again_ = false;
  bool remote_ended_ = false;   // the peer has said all
  bool local_deaf_ = false;     // the daemon reads no more
  bool local_hung_up_ = false;  // nor writes
  bool local_ended_ = false;    // and all it wrote is on its way
  std::chrono::steady_clock::time_point local_end_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_RELAY_H_
