// One client's world: its handles, the order of its commands, its graphs and its quota.
#ifndef CHX_SERVER_SESSION_SESSION_H_
#define CHX_SERVER_SESSION_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "proto/command.h"
#include "server/engine/compute_slots.h"
#include "server/session/session_state.h"
#include "server/session/session_types.h"

namespace chx::server {

// Thread-safe: each public function takes the session's lock, so commands of one session never
// overlap. Sessions share nothing but the devices.
class Session {
 public:
  // `share`: the client is on this host and may map arrays. `account`: by default one of its own,
  // with limits.memory_bytes.
  Session(const Devices* devices, const SessionLimits& limits, bool share = false,
          MemoryAccountPtr account = nullptr);
  ~Session();

  // Carries out decoded commands in order. Never fails as a whole: a command's failure is an error
  // value under its results, and in *output. Commands of a batch that stop() has cancelled are not
  // run, but for those that only keep the books; once it has ended the session none are.
  void Execute(absl::Span<const Command> window, SessionOutput* output, uint64_t batch = 0);

  // Allocates the array for an upload; Write fills it from the front, Finish binds the handle.
  // Nothing is visible to commands before Finish.
  class UploadSink {
   public:
    absl::Status Write(absl::string_view bytes);
    absl::Status Finish();

   private:
    friend class Session;
    Session* session_ = nullptr;
    Handle handle_ = 0;
    Array array_;
    int64_t written_ = 0;
  };
  absl::StatusOr<UploadSink> BeginUpload(Handle handle, Dtype dtype,
                                         absl::Span<const int64_t> shape, DeviceId device);

  // The array's elements in C order in host memory. A root error comes as its Status.
  struct HostCopy {
    Dtype dtype;
    Shape shape;
    std::string data;
    MemoryCharge charge;
  };
  absl::StatusOr<HostCopy> ReadArray(Handle handle);

  // Whether an array or an error is bound to the handle.
  bool Holds(Handle handle);

  // Thread-safe without the session's lock.
  Segments& segments() { return state_.executor.segments(); }
  StopToken& stop() { return state_.stop; }
  const MemoryAccountPtr& account() const { return state_.account(); }

  // Frees what backward passes hold that wait for functions past their deadline, now or, if a
  // command runs, at a later call.
  void EndLatePasses();

  // Errors that no read has shown, oldest first, at most `max`.
  std::vector<SessionOutput::Error> UnreadErrors(size_t max = 100);
  // As above; none if the session is busy for longer than `patience`.
  std::vector<SessionOutput::Error> UnreadErrorsWithin(std::chrono::milliseconds patience,
                                                       size_t max = 100);
  // Without the session's lock: as of the last command.
  SessionStats stats() const;
  const SessionLimits& limits() const { return state_.limits; }

 private:
  // Work that is not a command of the stream; lives under the lock. It can be stopped as one.
  class Outside {
   public:
    explicit Outside(Session* session);
    ~Outside();
    // An error if it may not begin.
    absl::Status Check(absl::string_view what) const;

   private:
    Session* const session_;
    const ComputeSlots::Turn turn_;
    const StopScope scope_;
    const StopReason reason_;
  };

  // Under the lock, perhaps on another thread than the one that holds it.
  void ExecuteInTurn(absl::Span<const Command> window, SessionOutput* output, uint64_t batch);

  // For those who may not wait for the lock. Written under it.
  struct Counters {
    std::atomic<int64_t> handles{0};
    std::atomic<int64_t> commands{0};
    std::atomic<int64_t> errors{0};
  };
  void Count(int64_t new_commands);

  Counters counters_;
  Mutex mutex_;
  ComputeSlots::Account computed_;
  SessionState state_;  // under mutex_, as its own comment says
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_SESSION_H_
