// Which daemons of a group do not answer.
#ifndef CHX_SERVER_COLLECTIVES_SILENT_DAEMONS_H_
#define CHX_SERVER_COLLECTIVES_SILENT_DAEMONS_H_

#include <string>
#include <vector>

#include "server/collectives/group_messages.pb.h"
#include "server/peers/peer_network.h"

namespace chx::server {

// A daemon that stops in the middle of an exchange has some of the others wait for it, and these
// have more of them wait: so what a daemon waits for does not say who it was. Each one that has
// waited in vain therefore asks all others, by new connections, whether they are there.
// Thread-safe.
class SilentDaemons {
 public:
  // Of the group that has formed, but for this daemon, which is at that position.
  SilentDaemons(PeerNetwork* network, const groups::Notice::Formed& formed, int self);

  // "rank 2 does not answer, nor does the daemon at node-1:7710"; "": all of them do. Waits for two
  // seconds at most.
  std::string Name() const;

 private:
  PeerNetwork& network_;
  std::vector<std::string> addresses_;
  std::vector<std::vector<int>> ranks_;  // by address
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_SILENT_DAEMONS_H_
