// One client's world: its handles, the order of its commands, its graphs and its quota.
#ifndef CHX_SERVER_SESSION_SESSION_H_
#define CHX_SERVER_SESSION_SESSION_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "proto/command.h"
#include "server/engine/compute_slots.h"
#include "server/observability/metrics.h"
#include "server/session/activity.h"
#include "server/session/session_state.h"
#include "server/session/session_types.h"

namespace chx::server {

// Thread-safe: each public function takes the session's lock, so commands of one session never
// overlap. Sessions share nothing but the devices.
class Session {
 public:
  Session(const Devices* devices, const SessionLimits& limits, SessionResources resources = {});
  ~Session();

  // Carries out decoded commands in order. Never fails as a whole: a command's failure is an error
  // value under its results, and in *output. Commands of a batch that stop() has cancelled are not
  // run, but for those that only keep the books; once it has ended the session none are.
  // `more`: others follow at once. Then the last ones may be left, to be given again with those:
  // how many have been carried out.
  size_t Execute(absl::Span<const Command> window, SessionOutput* output, uint64_t batch = 0,
                 bool more = false);
  // How many commands may be left, at most.
  static constexpr size_t kMaxLeft = RepeatedWindows::kMaxPending;

  // As Execute, for a run (server/runs): what the client cancels is not meant. It makes way for
  // those who wait for the session. `then` is called under the lock, so that nobody sees the
  // session between the two. False: the client records a program just now, and nothing has been
  // done.
  bool ExecuteForRun(absl::Span<const Command> window, SessionOutput* output,
                     absl::FunctionRef<void()> then);

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
    uint64_t incarnation_ = 0;  // of the session that it was begun in
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
  // Another client begins: handles, graphs and definitions are freed. What is saved under names
  // stays, with what runs have, and uploads that the former client began fail. Waits for nobody:
  // whoever has the session next begins with it.
  void BeginAnew();
  // Between two commands, under the lock: for who writes the session to a file, or reads it.
  void Inspect(absl::FunctionRef<void(SessionState&)> look);
  // The same, unless commands run for so long. False: it has not looked.
  bool InspectWithin(std::chrono::milliseconds patience,
                     absl::FunctionRef<void(SessionState&)> look);
  // How many names there are. Without the lock, as stats().
  int64_t saved() const { return counters_.saved.load(std::memory_order_relaxed); }
  // Calls of upload that have bound a handle, for this client.
  int64_t uploads() const { return counters_.uploads.load(std::memory_order_relaxed); }
  void set_uploads(int64_t uploads) { counters_.uploads = uploads; }

  // The session's runs (server/runs): those that go on, and with those that have ended.
  struct RunCounts {
    std::atomic<int> active{0};
    std::atomic<int> kept{0};
  };
  RunCounts& runs() { return runs_; }
  // Whether there is something for who takes the session up by its name.
  bool has_kept() const { return saved() > 0 || runs_.kept.load(std::memory_order_relaxed) > 0; }
  // What those above keep with the session, for as long as it lives. `make` is called once, where
  // there is nothing yet.
  using Attachment = std::shared_ptr<void>;
  Attachment Attached(absl::FunctionRef<Attachment()> make);
  // Null: nothing is attached.
  Attachment FindAttached();

  // Thread-safe without the session's lock.
  Segments& segments() { return state_.executor.segments(); }
  StopToken& stop() { return state_.stop; }
  const MemoryAccountPtr& account() const { return state_.account(); }
  SessionCounters& counters() const { return *count_; }
  const Activity& activity() const { return activity_; }
  // Before the session is used: as what traces name it.
  void SetName(uint64_t number, std::string client_name);

  // Frees what backward passes hold that wait for functions past their deadline, now or, if a
  // command runs, at a later call.
  void EndLatePasses();

  // Gives memory back that it does not use, for others; false: it has none, or is busy.
  bool GiveBackCaches(const Device* device);

  // Errors that no read has shown, oldest first, at most `max`.
  std::vector<SessionOutput::Error> UnreadErrors(size_t max = 100);
  // As above; none if the session is busy for longer than `patience`.
  std::vector<SessionOutput::Error> UnreadErrorsWithin(std::chrono::milliseconds patience,
                                                       size_t max = 100);
  // Without the session's lock: as of the last command.
  SessionStats stats() const;
  const SessionLimits& limits() const { return state_.limits; }

 private:
  // Holds the session's lock. Runs, which would take it again and again, make way meanwhile.
  class Lock {
   public:
    explicit Lock(Session* session);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Session* const session_;
  };
  // Under the lock.
  void BeginAnewNow();
  size_t ExecuteLocked(absl::Span<const Command> window, SessionOutput* output, uint64_t batch,
                       bool more);

  // What the session waits for turns to compute, as long as this exists: counted when it ends.
  class TurnWait {
   public:
    explicit TurnWait(Session* session) : session_(session), before_(session->turns_.waited) {}
    ~TurnWait() { session_->count_->wait_nanoseconds.Add(so_far().count()); }
    TurnWait(const TurnWait&) = delete;
    TurnWait& operator=(const TurnWait&) = delete;
    std::chrono::nanoseconds so_far() const { return session_->turns_.waited - before_; }

   private:
    Session* const session_;
    const ComputeSlots::Duration before_;
  };

  // Work that is not a command of the stream; lives under the lock. It can be stopped as one.
  class Outside {
   public:
    // `what`: as traces name it, a literal.
    Outside(Session* session, absl::string_view what);
    ~Outside();
    // An error if it may not begin.
    absl::Status Check() const;
    // So much is copied.
    void set_bytes(int64_t bytes) { bytes_ = bytes; }

   private:
    Session* const session_;
    const absl::string_view what_;
    int64_t bytes_ = 0;
    WindowTrace trace_;
    const TurnWait wait_;
    const ComputeSlots::Turn turn_;
    const Activity::Scope activity_;
    const StopScope scope_;
    const StopReason reason_;
  };

  // Under the lock, perhaps on another thread than the one that holds it.
  size_t ExecuteInTurn(absl::Span<const Command> window, SessionOutput* output, uint64_t batch,
                       bool more, WindowTrace* trace);

  // For those who may not wait for the lock. Written under it.
  struct Counters {
    std::atomic<int64_t> handles{0};
    std::atomic<int64_t> errors{0};
    std::atomic<int64_t> saved{0};
    std::atomic<int64_t> uploads{0};
  };
  void Count(int64_t new_commands);
  // Takes the lock, unless that takes too long.
  bool LockWithin(std::chrono::milliseconds patience) ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true, mutex_);
  // A command has taken so long.
  void NoteTime(const Command& command, int64_t nanoseconds, SessionOutput* output);
  // Where the command's result is, or its first array; -1: unknown.
  int DeviceOf(const Command& command);

  const SessionCountersPtr count_;  // outlives the state
  Counters counters_;
  Activity activity_;
  TraceRow row_;
  RunCounts runs_;
  std::atomic<int> waiting_{0};           // for the lock
  std::atomic<bool> begins_anew_{false};  // with whoever has the lock next
  Mutex mutex_;
  ComputeSlots::Account turns_;
  SessionState state_;  // under mutex_, as its own comment says
  Mutex attached_mutex_;
  Attachment attached_ ABSL_GUARDED_BY(attached_mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_SESSION_H_
