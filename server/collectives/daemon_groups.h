// A daemon's part in groups of several daemons, as one thing.
#ifndef CHX_SERVER_COLLECTIVES_DAEMON_GROUPS_H_
#define CHX_SERVER_COLLECTIVES_DAEMON_GROUPS_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/collectives/meeting_place.h"
#include "server/collectives/remote_groups.h"
#include "server/peers/peer_network.h"

namespace chx::server {

// Outlives all sessions.
class DaemonGroups {
 public:
  static absl::StatusOr<std::unique_ptr<DaemonGroups>> Start(PeerOptions options,
                                                             RemoteGroups::MakeMesh make_mesh,
                                                             std::chrono::milliseconds timeout);

  ~DaemonGroups();

  RemoteGroups* remote() { return remote_.get(); }
  // Where other daemons reach it.
  const std::string& address() const { return network_->address(); }

 private:
  DaemonGroups() = default;

  MeetingPlace place_;
  std::unique_ptr<PeerNetwork> network_;
  std::unique_ptr<RemoteGroups> remote_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_DAEMON_GROUPS_H_
