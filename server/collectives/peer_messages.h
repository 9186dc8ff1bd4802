// Messages between ranks of different daemons, as they are on their way.
#ifndef CHX_SERVER_COLLECTIVES_PEER_MESSAGES_H_
#define CHX_SERVER_COLLECTIVES_PEER_MESSAGES_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/array_spec.h"
#include "server/collectives/mesh.h"
#include "server/collectives/peer_exchange.h"

namespace chx::server {

// What a rank sends first. The elements follow in pieces.
struct PeerExchange::MessageHeader {
  static constexpr size_t kTextBytes = 400;

  int64_t tag;
  int64_t shape[kMaxNdim];
  uint32_t ndim;
  uint32_t dtype;
  uint32_t failure_kind;  // and 1; 0: it is an array
  uint32_t zero;
  char text[kTextBytes];  // why there is none, else the line that has sent it; ends in 0
};

// What this daemon keeps until the other one has received it.
struct PeerExchange::Sent {
  MemoryCharge charge;
  MessageHeader header;
  std::string data;
  std::vector<std::unique_ptr<MeshTransfer>> transfers;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_PEER_MESSAGES_H_
