// The op stream to a daemon, kept alive: batches out, events in, exactly once across a cut.
#ifndef CHX_CLIENT_CONNECTION_H_
#define CHX_CLIENT_CONNECTION_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "client/call_channel.h"
#include "client/channel_pool.h"
#include "client/connect_options.h"
#include "client/departure.h"
#include "client/dialer.h"
#include "client/link.h"
#include "client/log.h"
#include "client/segments.h"
#include "ops/array_spec.h"
#include "ops/op_def.h"
#include "proto/chxd.pb.h"
#include "proto/command.h"

namespace chx {

// Thread-safe. Whoever waits for a value reads the stream itself and hands other waiters theirs, so
// that no value waits for a thread to wake up.
class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const std::string& address,
                                                          const ConnectOptions& options);
  ~Connection();

  // `take` moves the pending commands into an empty string and counts them; nothing is sent if
  // there are none. Batches keep the order of the takes. Waits while too much is in flight; where
  // it may be interrupted, and is, it returns Interruption::Error(), whether it has sent or not.
  absl::Status Send(absl::FunctionRef<uint32_t(std::string* commands)> take,
                    bool interruptible = false);
  // Whether the daemon has taken in all that was sent, and so may have nothing to do.
  bool TakesAtOnce() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the answer to a kFetch or kBarrier that has been sent. The array's bytes are copied
  // to `out`, which must be of their size.
  absl::Status Wait(uint64_t request_id, void* out, size_t bytes);
  // Waits for an answer of any size, whatever went wrong elsewhere.
  absl::StatusOr<std::string> WaitFor(uint64_t request_id, bool interruptible = false);
  // What went wrong elsewhere, once: a write that nobody has waited for.
  absl::Status TakeWriteError() ABSL_LOCKS_EXCLUDED(mutex_);
  // Nobody will wait for the answer.
  void Abandon(uint64_t request_id) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Status Upload(Handle handle, Dtype dtype, absl::Span<const int64_t> shape, DeviceId device,
                      absl::string_view data);
  // Has the daemon make an array of a file's rows, as an upload does.
  absl::Status ReadData(v1::ReadDataRequest request);
  // After a barrier.
  absl::Status Download(Handle handle, void* out, size_t bytes);
  // Whether arrays on the device can be in memory that is mapped here too.
  bool Shares(DeviceId device) const {
    return shares_[device] && segments_ != nullptr && segments_->usable();
  }
  // The first of them, if there is one.
  absl::optional<DeviceId> SharingDevice() const;
  // Whether uploads may go through shared memory. Not where the session may go on in another
  // process of the daemon: what the client writes there after a snapshot would be lost, and nobody
  // know it.
  bool UploadsByMapping() const { return !kept_.survives_restart(); }
  // By the daemon's number. `populate`: all of it will be used, soon.
  absl::StatusOr<MappingPtr> MapSegment(uint32_t number, bool populate) {
    return segments_->Get(number, populate);
  }
  // How many uploads and downloads there were.
  int64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  // The session is about to be closed: from now on a cut is worth a short wait only.
  void ExpectClose() { closing_ = true; }
  // Ends the session. One with a name, in which arrays were saved, waits in the daemon for another
  // client, unless `discard`.
  absl::Status Close(bool discard = false);
  // What has been sent and has not run becomes errors; the session goes on.
  absl::Status Cancel();
  // One call about the session, beside its stream, which may be repeated: also to the next daemon,
  // if that has the session. `fill` puts the session's id, and the epoch of the daemon's process,
  // into it.
  absl::Status AskAboutSession(
      absl::FunctionRef<void(const std::string& id, uint64_t epoch, v1::Call* call)> fill,
      std::chrono::seconds timeout, v1::Reply* reply);
  // To be called now and then by a thread that has nothing else to do: finds out whether the stream
  // is cut, which nobody may see who does not read, and takes the session up. Returns when to call
  // next, or an error once the session is closed or lost.
  absl::StatusOr<std::chrono::milliseconds> KeepAlive();
  // Whether the daemon has said that it is about to end.
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  // The id by which the daemon knows an operator; 0 if it doesn't.
  uint16_t WireId(const OpDef& op) const { return op_ids_[op.id]; }
  // Whether the daemon's sessions share arrays with each other.
  bool knows_sharing() const { return knows_sharing_; }
  bool knows_programs() const { return knows_programs_; }
  bool knows_runs() const { return knows_runs_; }
  bool knows_data() const { return knows_data_; }
  bool knows_upload_parts() const { return knows_upload_parts_; }
  bool knows_published_programs() const { return knows_published_programs_; }
  bool knows_groups() const { return knows_groups_; }
  bool knows_reduce_backward() const { return knows_reduce_backward_; }
  const std::vector<std::string>& devices() const { return devices_; }
  size_t max_inline_bytes() const { return limits_.max_inline_bytes(); }
  uint64_t session_memory_bytes() const { return limits_.session_memory_bytes(); }
  size_t max_batch_bytes() const { return limits_.max_batch_bytes(); }
  size_t max_batch_commands() const { return limits_.max_inflight_commands(); }
  const std::string& address() const { return address_; }
  // Whether the daemon keeps arrays under names; whether it had the session of that name, and what
  // the former client has said about its random numbers.
  bool named() const { return !options_.session.empty(); }
  bool keeps_names() const { return keeps_names_; }
  const v1::KeptState& kept() const { return kept_; }
  // False once the session is closed or lost for good, as status() then says.
  bool ok() const { return !has_failed_.load(std::memory_order_relaxed); }
  absl::Status status();
  // Functions that no graph of the daemon refers to any more; each is returned once.
  std::vector<uint64_t> TakeFreedFunctions();
  // Errors of commands as they were reported; each is reported once.
  std::vector<absl::Status> TakeErrors();

 private:
  using Clock = std::chrono::steady_clock;

  // An attempt to take the session up: how it goes on. Of the thread that reads.
  struct Recovery {
    bool active = false;  // the stream is cut
    Clock::time_point since;
    Clock::time_point next_try;
    int tries = 0;
    bool told = false;  // of a daemon that has no room
    Departure departure;
  };

  Connection(std::string address, ConnectOptions options);
  // Makes a session or takes it up, on a connection that may become its stream.
  absl::Status OpenSession(absl::string_view resume_session_id, Clock::time_point deadline,
                           v1::OpenReply* reply, std::unique_ptr<CallChannel>* channel);
  // An error without an ErrorKind of the daemon's is the connection's.
  absl::Status FromReply(const v1::Status& status) const;
  // A new stream for the session. It begins with a greeting, by which the daemon knows from the
  // start that the client is there.
  std::shared_ptr<Link> Attach(std::unique_ptr<CallChannel> channel, uint64_t last_batch_seq,
                               uint64_t last_event_seq) const;
  void AdoptNumbers(uint64_t last_batch_seq) ABSL_LOCKS_EXCLUDED(write_mutex_);
  // One call that may be repeated, over a connection of its own.
  absl::Status Ask(const v1::Call& call, Clock::time_point deadline, v1::Reply* reply);
  // Calls `attempt` with a channel until it returns true, over new ones where they are cut, as long
  // as the session can be taken up.
  absl::Status Persist(absl::FunctionRef<bool(CallChannel*)> attempt) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits, without a lock, while the daemon takes nothing of what is sent.
  absl::Status WaitForRoom(bool interruptible) ABSL_LOCKS_EXCLUDED(mutex_, write_mutex_);
  absl::Status WriteBatch(absl::FunctionRef<uint32_t(std::string* commands)> take, bool* full)
      ABSL_LOCKS_EXCLUDED(mutex_, write_mutex_);
  // Reads one event and hands out what is in it; *got: whether there was one. One thread at a time.
  absl::Status ReadEvent(Link::Wait wait, bool* got);
  void Dispatch(v1::Event* event) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reads until `done`, or lets another thread do so. Where it may be interrupted, and is, it
  // returns Interruption::Error().
  absl::Status ReadUntil(absl::FunctionRef<bool()> done, bool interruptible = false);
  absl::StatusOr<v1::FetchedValue> TakeValue(uint64_t request_id, bool interruptible)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A step towards taking the session up on a new stream: a try, or a part of the wait for the
  // next.
  absl::Status Recover();
  absl::Status TryToResume();
  // After a resumption in another process of the daemon: whether its session is the one that this
  // client knows.
  absl::Status CheckRestored(const v1::OpenReply& reply) ABSL_LOCKS_EXCLUDED(mutex_);
  Clock::duration Patience() const;
  void Ping();
  absl::Status Lost(const absl::Status& why);
  // Whether the daemon has ended, by what a try to connect came to; where the user has set a time
  // for reconnecting, that counts.
  bool HasEnded(Departure* departure, const absl::Status& dialed) const {
    if (kept_.survives_restart()) return false;  // the next daemon will have the session
    return departure->SeenAfter(dialed, Clock::now()) && !options_.reconnect.has_value();
  }
  // "chxd at ADDRESS: ..." to client/log.h, if anybody wants it.
  template <typename... Args>
  void Log(LogLevel level, const Args&... args) const {
    if (!internal::LogWanted(level)) return;
    internal::Log(level, absl::StrCat("chxd at ", address_, ": ", args...));
  }
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  const ConnectOptions options_;
  const int fork_generation_;
  std::unique_ptr<Dialer> dialer_;
  std::unique_ptr<ChannelPool> channels_;
  std::string session_id_;
  uint64_t session_number_ = 0;  // as administrators know it
  std::vector<uint16_t> op_ids_;
  std::vector<std::string> devices_;
  std::vector<bool> shares_;  // by device
  bool knows_sharing_ = false;
  bool knows_programs_ = false;
  bool knows_runs_ = false;
  bool knows_data_ = false;
  bool knows_upload_parts_ = false;
  bool knows_published_programs_ = false;
  bool knows_groups_ = false;
  bool knows_reduce_backward_ = false;
  std::unique_ptr<SegmentMap> segments_;
  v1::Limits limits_;
  bool keeps_names_ = false;
  v1::KeptState kept_;              // as of the beginning
  std::atomic<uint64_t> epoch_{0};  // of the daemon's process that has the session

  Mutex write_mutex_;  // taken before mutex_
  uint64_t next_batch_seq_ ABSL_GUARDED_BY(write_mutex_) = 1;

  Mutex mutex_;
  CondVar arrived_;
  std::shared_ptr<Link> link_ ABSL_GUARDED_BY(mutex_);  // null once the session is closed
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);  // not OK: the session is closed or lost
  std::atomic<bool> has_failed_{false};
  std::deque<std::shared_ptr<v1::Submit>> unacked_ ABSL_GUARDED_BY(mutex_);
  uint64_t inflight_commands_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t inflight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_event_seq_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_acked_batch_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> uploads_{0};  // calls that have bound a handle
  absl::flat_hash_map<uint64_t, v1::FetchedValue> values_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<uint64_t> abandoned_ ABSL_GUARDED_BY(mutex_);  // nobody waits for them now
  std::vector<absl::Status> errors_ ABSL_GUARDED_BY(mutex_);
  // The first since the last wait of a command that made nothing: no array can carry it.
  absl::Status write_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> freed_functions_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_freed_functions_{false};
  std::atomic<int64_t> calls_{0};
  std::atomic<uint64_t> unheard_bytes_{0};  // sent since the daemon last said something
  std::atomic<bool> draining_{false};
  std::atomic<bool> closing_{false};
  std::atomic<uint64_t> last_sent_seq_{0};
  std::atomic<Clock::rep> last_heard_{0};
  Recovery recovery_;  // of the thread that has set reading_
  // Of the thread that calls KeepAlive.
  Clock::time_point pinged_;
  bool ping_is_due_back_ = false;
  std::vector<std::string> spare_buffers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_CLIENT_CONNECTION_H_
