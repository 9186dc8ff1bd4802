// How the ranks of one process group exchange arrays.
#ifndef CHX_SERVER_COLLECTIVES_COLLECTIVE_ENGINE_H_
#define CHX_SERVER_COLLECTIVES_COLLECTIVE_ENGINE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/collectives.h"
#include "server/engine/memory_budget.h"

namespace chx::server {

// Of one group, for those of its ranks that are sessions of this daemon. The ranks meet: the n-th
// collective of each is one collective, and an error of one is an error of all. Thread-safe; each
// rank calls one function at a time.
class CollectiveEngine {
 public:
  virtual ~CollectiveEngine() = default;
  // Returns when all ranks have given and got what the call is about, or one of them cannot. Where
  // they differ in it, the group goes on; where one stays away for too long, is stopped or has
  // left, the group is broken, and all its collectives fail from then on.
  virtual absl::Status Run(int rank, const CollectiveCall& call, HostKernels kernels) = 0;
  // Of a kSend: keeps a copy until the other rank has received it, for which `charge` is.
  virtual absl::Status Send(int rank, const CollectiveCall& call, MemoryCharge charge) = 0;
  // Of a kReceive: waits for what the other rank sends, as Run waits for ranks.
  virtual absl::Status Receive(int rank, const CollectiveCall& call) = 0;
  // The group is broken, as `why` says of the rank: "has left".
  virtual void Break(int rank, absl::string_view why) = 0;
  // Ranks that wait look again whether they are to stop.
  virtual void Wake() = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_COLLECTIVE_ENGINE_H_
