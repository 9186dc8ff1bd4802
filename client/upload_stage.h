// Uploads that wait for nothing.
#ifndef CHX_CLIENT_UPLOAD_STAGE_H_
#define CHX_CLIENT_UPLOAD_STAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/command_queue.h"
#include "client/stage.h"

namespace chx {

// A stage that uploads fill in turn, in two halves. A half is filled again when the daemon has
// answered a request behind all that it held.
//
// Owned by an ArrayTransfer. Thread-safe. Its lock is taken before the queue's, and held during a
// wait for room; a second thread does not wait for it but uploads in another way.
class UploadStage {
 public:
  UploadStage(Connection* connection, CommandQueue* queue, SharedMemory* memory)
      : connection_(*connection), queue_(*queue), memory_(*memory) {}
  // With room for nothing until Grow, and then for up to an eighth of the session's memory.
  static UploadStage OfLoaders(Connection* connection, CommandQueue* queue, SharedMemory* memory) {
    return UploadStage(connection, queue, memory, 0, 8);
  }
  UploadStage(const UploadStage&) = delete;

  // The new array's handle; 0: the value is to be uploaded in another way.
  absl::StatusOr<Handle> Upload(absl::string_view data,
                                const ArraySpec& spec) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Each half is to have room for so many bytes. If it has not, this waits until the daemon has
  // copied all that is in the stage.
  absl::Status Grow(size_t half_bytes) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Unmaps the memory, now or at the end of the upload that is using it. The session is closed.
  void Drop();

 private:
  UploadStage(Connection* connection, CommandQueue* queue, SharedMemory* memory, size_t most_bytes,
              uint64_t share_of_memory)
      : connection_(*connection),
        queue_(*queue),
        memory_(*memory),
        share_of_memory_(share_of_memory),
        most_bytes_(most_bytes) {}

  absl::Status GrowLocked(size_t half_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Handle> UploadLocked(absl::string_view data, const ArraySpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In parts, where the daemon knows how and there is no better way.
  absl::StatusOr<Handle> UploadInParts(absl::string_view data, const ArraySpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Copies the data to where there is room for it, whose offset it returns.
  absl::StatusOr<int64_t> Fill(absl::string_view data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Goes on with the other half: waits until the daemon has copied what it holds.
  absl::Status SwitchHalf() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropIfUnused() ABSL_LOCKS_EXCLUDED(mutex_);

  Connection& connection_;
  CommandQueue& queue_;
  SharedMemory& memory_;
  const uint64_t share_of_memory_ = Stage::kShareOfMemory;
  Mutex mutex_;
  // Set by Drop, perhaps in a signal's handler during the wait: who holds the mutex then drops the
  // stage.
  std::atomic<bool> dropped_{false};
  Stage stage_ ABSL_GUARDED_BY(mutex_);
  size_t most_bytes_ ABSL_GUARDED_BY(mutex_) = 4 << 20;
  size_t half_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int half_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;            // of this half
  size_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;          // about
  uint64_t requests_[2] ABSL_GUARDED_BY(mutex_) = {};  // by half; 0: free
};

}  // namespace chx

#endif  // CHX_CLIENT_UPLOAD_STAGE_H_
