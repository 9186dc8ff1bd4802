// A thread of the front process that serves relays.
#ifndef CHX_SERVER_FRONT_RELAY_LOOP_H_
#define CHX_SERVER_FRONT_RELAY_LOOP_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "server/front/relay.h"

namespace chx::server {

// Authenticated peers have a thread that strangers' handshakes do not hold up. Adopt and size may
// be called by any thread.
class RelayLoop {
 public:
  RelayLoop();
  ~RelayLoop();

  void Adopt(std::unique_ptr<Relay> relay);
  size_t size() const { return size_; }

 private:
  void Run();
  void TakeIn();
  // What has happened on a socket of a relay.
  void Serve(Relay* relay, int socket, uint32_t events);
  // One step, after which epoll watches for what the relay waits for; or its end.
  void Pump(Relay* relay, Relay::Way way);
  void Watch(Relay* relay, int socket, uint32_t events, uint32_t* watched) const;
  void Remove(Relay* relay);
  void EndLingering();
  void TrimMemory();

  int epoll_ = -1;
  int wake_ = -1;
  std::atomic<bool> stop_{false};
  std::atomic<size_t> size_{0};
  Mutex mutex_;
  std::vector<std::unique_ptr<Relay>> new_ ABSL_GUARDED_BY(mutex_);
  // The thread's own.
  absl::flat_hash_map<int, std::shared_ptr<Relay>> relays_;  // by either socket
  std::vector<std::shared_ptr<Relay>> again_;
  size_t lingering_ = 0;
  size_t ended_ = 0;  // since memory was given back
  std::array<char, Relay::kBytes> buffer_;
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_RELAY_LOOP_H_
