// Fetches of large values that wait for the first answer only.
#ifndef CHX_CLIENT_FETCH_STAGE_H_
#define CHX_CLIENT_FETCH_STAGE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/array.h"
#include "client/command_queue.h"
#include "client/stage.h"

namespace chx {

// A stage through which fetches go in pieces: the daemon copies some while the client copies
// others.
//
// Owned by an ArrayTransfer. Thread-safe. One fetch takes the stage and waits without a lock;
// another one at the same time goes another way.
class FetchStage {
 public:
  FetchStage(Connection* connection, CommandQueue* queue, SharedMemory* memory)
      : connection_(*connection), queue_(*queue), memory_(*memory) {}
  FetchStage(const FetchStage&) = delete;

  // False: the value is to be fetched in another way.
  absl::StatusOr<bool> Fetch(const ArrayBody& array, char* out, size_t bytes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Unmaps the memory, now or at the end of the fetch that is using it. The session is closed.
  void Drop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<bool> FetchThrough(Stage* stage, const ArrayBody& array, char* out, size_t bytes);

  Connection& connection_;
  CommandQueue& queue_;
  SharedMemory& memory_;
  Mutex mutex_;
  Stage stage_ ABSL_GUARDED_BY(mutex_);
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;  // by a fetch
  bool dropped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace chx

#endif  // CHX_CLIENT_FETCH_STAGE_H_
