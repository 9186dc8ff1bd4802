// How much each peer, and all together, may have of the daemon.
#ifndef CHX_SERVER_RPC_ADMISSION_H_
#define CHX_SERVER_RPC_ADMISSION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/frame.h"
#include "server/engine/memory_budget.h"
#include "server/rpc/peer_info.h"

namespace chx::server {

struct AdmissionLimits {
  size_t sessions = 2048;
  size_t sessions_per_peer = 1024;
  // Each session has a stream, and may have a transfer beside it.
  size_t connections = 4096;
  size_t connections_per_peer = 2048;
  // Of unfinished frames beyond their readers' small buffers, in all.
  size_t frame_bytes = 64 << 20;
  // How long a frame may wait for others to give some of it back.
  std::chrono::milliseconds frame_wait{10000};
  // The daemon's, which frames and connections are charged to; null: none.
  MemoryBudget* memory = nullptr;
};

// A peer is a user of this host, or an address with a token. The daemon's one; thread-safe.
class Admission final : public FrameBudget {
 public:
  // Counts for a peer as long as it exists. Outlives the Admission if need be.
  using Ticket = std::shared_ptr<void>;

  explicit Admission(const AdmissionLimits& limits);
  ~Admission() override;

  // RESOURCE_EXHAUSTED, with the limit that is reached.
  absl::StatusOr<Ticket> AdmitConnection(const PeerInfo& peer);
  absl::StatusOr<Ticket> AdmitSession(const PeerInfo& peer);

  // Waits for a while where there is none left. Where the daemon is at its limit, one frame at a
  // time is received all the same: what it releases may be the only way to have memory again.
  bool Reserve(size_t bytes, const void* reader) override;
  void Release(size_t bytes, const void* reader) override;

 private:
  struct Counter;
  struct Admitted;
  class Frames;

  const std::shared_ptr<Counter> connections_;
  const std::shared_ptr<Counter> sessions_;
  const std::unique_ptr<Frames> frames_;
};

// As messages name it: "uid 1000", "10.0.0.7".
std::string PeerName(const PeerInfo& peer);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_ADMISSION_H_
