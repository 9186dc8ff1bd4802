#include "server/collectives/daemon_groups.h"

#include "ops/error.h"

namespace chx::server {

absl::StatusOr<std::unique_ptr<DaemonGroups>> DaemonGroups::Start(
    PeerOptions options, RemoteGroups::MakeMesh make_mesh, std::chrono::milliseconds timeout) {
  std::unique_ptr<DaemonGroups> groups(new DaemonGroups);
  const bool by_devices = options.by_devices;
  CHX_ASSIGN_OR_RETURN(groups->network_, PeerNetwork::Start(std::move(options),
                                                            [place = &groups->place_](int socket) {
                                                              place->Serve(socket);
                                                            }));
  groups->remote_ = std::make_unique<RemoteGroups>(groups->network_.get(), std::move(make_mesh),
                                                   timeout, by_devices);
  return groups;
}

// Who connects, or is connected to, ends before those that wait for it.
DaemonGroups::~DaemonGroups() {
  if (network_ != nullptr) network_->Stop();
}

}  // namespace chx::server
