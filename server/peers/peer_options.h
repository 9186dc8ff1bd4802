// What whoever starts the daemon says about other daemons.
#ifndef CHX_SERVER_PEERS_PEER_OPTIONS_H_
#define CHX_SERVER_PEERS_PEER_OPTIONS_H_

#include <string>
#include <vector>

namespace chx::server {

struct PeerOptions {
  std::string listen;              // HOST:PORT; port 0 picks a free one
  std::string address;             // as others reach it; empty: as it listens
  std::vector<std::string> peers;  // where groups may meet, as patterns of glob(7)
  std::string secret;              // of all daemons that belong together
  bool encrypted = true;           // their connections: the same at all of them
  // GPUs exchange arrays by connections of NCCL's own, which are neither proved nor encrypted.
  bool by_devices = false;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PEERS_PEER_OPTIONS_H_
