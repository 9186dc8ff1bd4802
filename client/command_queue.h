// The commands of a session on their way to the daemon.
#ifndef CHX_CLIENT_COMMAND_QUEUE_H_
#define CHX_CLIENT_COMMAND_QUEUE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/command_stats.h"
#include "client/connection.h"
#include "client/pending_commands.h"
#include "client/step_ends.h"
#include "ops/op_call.h"
#include "proto/command.h"

namespace chx {

class Session;

// Encodes commands in the order of their calls, gives out handles and request ids, and sends
// batches. A thread of its own sends what nobody else flushes.
//
// Owned by a Session. Thread-safe. Functions that need mutex() are for callers that take a handle
// or a request id and append the command in one critical section: the daemon then sees both in one
// order. While mutex() is held, only the locks of BackpropIds, of the Connection and of locations.h
// are taken, and no array may be released, as its destructor calls Release.
class CommandQueue {
 public:
  // `session` only identifies the session in modes (client/modes.h).
  CommandQueue(Connection* connection, const Session* session);
  CommandQueue(const CommandQueue&) = delete;

  // An OK status if the session belongs to this process, is open, and is not lost.
  absl::Status CheckOpen() const;
  // That, and no other thread records a program.
  absl::Status CheckUsable() const;
  // Whether the session belongs to a process that this one was forked from: unusable.
  bool Forked() const;

  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }
  Handle NewHandle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return next_handle_++; }
  uint64_t NewRequest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return next_request_++; }
  // The calling thread's line of the program and its mode, as commands name them. The daemon is
  // told what they mean before they are used for the first time.
  uint32_t Location() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint16_t Mode() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Append(const Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there is something for FlushDue.
  bool Due() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending_.due(); }
  // The calling thread records a program: its operators are counted, and nothing can be waited for.
  void BeginRecording() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRecording() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the calling thread does.
  bool Records() const;
  int64_t num_recorded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return num_operators_ - recorded_from_;
  }
  bool closed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closed_; }

  Handle AllocateHandle() ABSL_LOCKS_EXCLUDED(mutex_);
  // Appends a command that the daemon answers, under a new request id, which it returns.
  template <typename Request>
  uint64_t AppendRequest(Request request) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const uint64_t id = request.request_id = next_request_++;
    Append(std::move(request));
    return id;
  }
  // The hot path: fills in `outputs` with new handles. `op_id`: the daemon's for the operator. True
  // if the pending commands are due.
  bool ApplyOp(uint16_t op_id, const OpCall<HandleOperand>& call, absl::Span<Handle> outputs)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Elements that are a part of the command. True if the pending commands are due.
  bool UploadInline(Dtype dtype, DeviceId device, absl::Span<const int64_t> shape,
                    absl::string_view data, Handle* handle) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for elements that are a part of the answer.
  absl::Status FetchInline(Handle handle, void* out, size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // The handle of an array of `bytes` is not used any more. Sent with the next batch.
  void Release(Handle handle, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  // Sends what is pending; waits only while the daemon has enough to do. If it may be interrupted
  // and is, the rest is sent later.
  absl::Status Flush(bool interruptible = false) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends, interruptibly, what is worth a message.
  absl::Status FlushDue() ABSL_LOCKS_EXCLUDED(mutex_);
  // An interruptible Flush before a wait for the answer to a request. If it is interrupted, nobody
  // waits for the answer.
  absl::Status FlushFor(uint64_t request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Flushes, and waits for the answer to a request.
  absl::StatusOr<std::string> AnswerTo(uint64_t request, bool interruptible)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for one that no value is in: it may be waited for while a program is recorded.
  absl::StatusOr<std::string> AnswerAboutGraphs(uint64_t request) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until the daemon has done all that was called.
  absl::Status Synchronize() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends the thread's work; false if the queue was closed already. After the connection is closed,
  // Join waits for the thread.
  bool Close() ABSL_LOCKS_EXCLUDED(mutex_);
  void Join() { flusher_.join(); }

  CommandStats stats() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status FlushForAny(uint64_t request) ABSL_LOCKS_EXCLUDED(mutex_);
  // To be called after a command was appended to pending_.
  void Appended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pending_.Count();
    if (flusher_idle_) wake_flusher_.notify_one();
  }
  void AppendReleases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteStep(const Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FlushLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sleeps until there may be something to flush, or until `deadline` if nothing was pending the
  // last `quiet` times. False if the queue is closed.
  bool WaitForWork(int* quiet, std::chrono::steady_clock::time_point deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);

  Connection* const connection_;
  const Session* const session_;
  const int fork_generation_;
  const pid_t process_;
  Mutex mutex_;
  PendingCommands pending_ ABSL_GUARDED_BY(mutex_);
  StepEnds step_ends_ ABSL_GUARDED_BY(mutex_);
  Handle next_handle_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t next_request_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<uint32_t> defined_modes_ ABSL_GUARDED_BY(mutex_);  // versions by number; 0: never
  std::vector<bool> defined_locations_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<const void*> recorder_{nullptr};  // the thread that records a program
  int64_t num_operators_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t recorded_from_ ABSL_GUARDED_BY(mutex_) = 0;
  bool flusher_idle_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::milliseconds flush_interval_ ABSL_GUARDED_BY(mutex_);
  CondVar wake_flusher_;
  std::thread flusher_;
};

}  // namespace chx

#endif  // CHX_CLIENT_COMMAND_QUEUE_H_
