// How devices exchange the arrays of a group's ranks by themselves, without the host's memory.
#ifndef CHX_SERVER_ENGINE_COMMUNICATOR_H_
#define CHX_SERVER_ENGINE_COMMUNICATOR_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace chx::server {

class Stream;
struct CollectiveCall;

// A rank whose arrays are in the memory of its stream's device.
struct DeviceRank {
  int rank = 0;
  Stream* stream = nullptr;
};

// Asked again and again while something takes its time. An error: that is to end, with this error.
using GoesOn = absl::FunctionRef<absl::Status()>;

// Of one group, for those of its ranks that are sessions of this daemon, each of them on a device
// of its own, which outlives it. Used by one thread at a time. What it has queued may still be
// under way when it ends; after an error, that is ended.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Whether the devices do what the host does for such a call. The same for all ranks' calls that
  // go together.
  virtual bool Takes(const CollectiveCall& call) const = 0;
  // Queues the ranks' parts of one collective on the streams of their calls, which nobody else uses
  // meanwhile and whose turns have ended (Stream::Flush). `calls`: by rank, null for those that are
  // elsewhere. Does not wait for the devices. After an error it is of no use any more.
  virtual absl::Status Queue(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on) = 0;
  // Until these ranks' devices have done it; the same of an error.
  virtual absl::Status Wait(absl::Span<const CollectiveCall* const> calls, GoesOn goes_on) = 0;
  // Before its end: other daemons may have ended theirs, and are not waited for.
  virtual void Abandon() = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_COMMUNICATOR_H_
