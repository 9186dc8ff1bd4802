// All sessions of a daemon, by their unguessable ids; stops and frees those whose lease has run out
// and those that are closed or killed. Waits for no session's lock.
#ifndef CHX_SERVER_SESSION_SESSION_MANAGER_H_
#define CHX_SERVER_SESSION_SESSION_MANAGER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "server/observability/metrics.h"
#include "server/session/disposer.h"
#include "server/session/named_sessions.h"
#include "server/session/session.h"
#include "server/session/transfers.h"
#include "server/tenancy/tenant.h"
#include "server/tenancy/tenant_use.h"

namespace chx::server {

struct ManagerOptions {
  SessionLimits session;
  std::chrono::milliseconds lease{30000};  // how long a session lives without a stream
  // And one with a name and arrays saved in it, where its tenant has no other lease.
  std::chrono::milliseconds named_lease = std::chrono::hours(24);
  size_t max_sessions = kDefaultMaxSessions;
  MemoryBudget* budget = nullptr;    // the daemon's; null: none
  std::shared_ptr<Metrics> metrics;  // null: each session counts for itself
  SharedStore* sharing = nullptr;    // what sessions share with each other; null: nothing
  ProcessGroups* groups = nullptr;   // that sessions are in; null: there are none
  // A session has ended for good: nothing is to be kept of it. Any thread; may be null.
  std::function<void(const std::string& key)> on_ended;
  bool survives_restart = false;  // snapshots are written at the daemon's end
};

// What an open session costs before it has done anything: its thread's stack, buffers of its
// stream, its tables. About twice what is measured.
inline constexpr int64_t kSessionBytes = int64_t{512} << 10;

// What a transport keeps for a session from one stream to the next.
struct TransportState {
  virtual ~TransportState() = default;
  // For a snapshot: what the client has to be told again if it has missed it.
  virtual std::string Serialize() const { return ""; }
};

// Why sessions end, for the log and the metrics.
inline constexpr absl::string_view kClosedByClient = "closed by its client";
inline constexpr absl::string_view kLeaseEnded = "its lease has run out";
inline constexpr absl::string_view kIdleEnded = "it has been idle for as long as its tenant's may";
inline constexpr absl::string_view kAgeEnded = "it has lived for as long as its tenant's may";
inline constexpr absl::string_view kKilledByAdmin = "killed by an administrator";
inline constexpr absl::string_view kProtocolBroken = "its client broke the protocol";

// For whom a session is.
struct SessionOwner {
  std::string client_name;
  std::string name;    // of the session, among its tenant's; empty: none
  std::string peer;    // as the log names it
  bool share = false;  // see Session
  uid_t uid = 0;       // who may map its arrays, where it shares them
  TenantPtr tenant = DefaultTenant();
};

// How others reach the stream that a session's client has open. Called by any thread, without the
// manager's lock, and perhaps once more after the session has been detached.
struct StreamHooks {
  std::function<void()> cancel;       // cuts it
  std::function<bool()> hung_up;      // whether the client has left it; may be null
  std::function<void()> on_draining;  // the daemon shuts down; may be null
};

// A session and what only the manager and the transport know about it. The transport serialises
// batches by `stream_mutex`.
struct SessionRecord {
  std::string id;       // 16 random bytes
  uint64_t number = 0;  // in listings; no secret
  std::string key;      // hexadecimal: of its snapshots; stays when it passes to another record
  // What the transport keeps as long as the session lives.
  std::shared_ptr<void> admission;
  TenantPlace place;
  SessionOwner owner;
  std::shared_ptr<Metrics> metrics;  // the daemon's; may be null
  std::shared_ptr<Session> session;  // with a name, it may pass to another record
  std::chrono::steady_clock::time_point opened;

  Mutex stream_mutex;                       // held while a batch is applied
  std::atomic<uint64_t> last_batch_seq{0};  // written under stream_mutex
  std::unique_ptr<TransportState> transport ABSL_GUARDED_BY(stream_mutex);
  // Not OK: the session is another client's by now, as this says.
  absl::Status passed_on ABSL_GUARDED_BY(stream_mutex);
  // Written under the manager's mutex: the last batch that a client has asked to cancel, and
  // whether no client has the session's id, so that it waits under its name.
  std::atomic<uint64_t> cancelled_through{0};
  std::atomic<bool> waits{false};
  bool taken_up = false;                            // a former client has left it
  absl::Time snapshot_time = absl::InfinitePast();  // of the one that it was restored from
  // Held while an array is sent: its copy is outside of the quota, so there is one at a time.
  Mutex download_mutex;
  Transfers transfers;

  // Guarded by the manager's mutex.
  uint64_t attachment = 0;  // 0: no stream; else which one
  std::shared_ptr<const StreamHooks> stream;
  bool hung_up = false;  // the client has left the stream, which still works
  std::chrono::steady_clock::time_point detached;  // or hung up
  int64_t seen_commands = 0;                       // at the last look
  std::chrono::steady_clock::time_point active;    // when it was last seen to do something
};
using SessionRecordPtr = std::shared_ptr<SessionRecord>;

// What a run of the session computes and has its memory from: it may outlive the session's own
// place.
inline TenantPlace PlaceOfRun(const SessionRecord& record) {
  return {record.place.memory, record.place.turns, nullptr};
}

// 16 bytes that cannot be guessed.
absl::StatusOr<std::string> NewSessionId();

// What a listing says about a session.
struct SessionSnapshot {
  uint64_t number;
  std::string client_name;
  TenantPtr tenant;
  std::string peer;
  std::chrono::steady_clock::time_point opened;
  bool attached;
  SessionStats stats;
  Activity::View activity;
  MemoryAccountPtr account;
};

// Thread-safe.
class SessionManager {
 public:
  SessionManager(const Devices* devices, const ManagerOptions& options);
  ~SessionManager();

  absl::StatusOr<SessionRecordPtr> Open(SessionOwner owner);
  // A session that is read from a snapshot: `fill` makes it what it was, with its id. Its lease
  // begins. An error if there is no room, or a session of that id or name.
  absl::StatusOr<SessionRecordPtr> Restore(SessionOwner owner,
                                           absl::FunctionRef<absl::Status(SessionRecord*)> fill);
  // A session that is on disk and could not be restored: as long as Restore has not had it, whoever
  // asks for it by its id or name has `restore` called, and gets its error.
  void Keep(const std::string& id, SessionName name, NamedSessions::Restorer restore);
  void KeepUnreadable(const std::string& key, absl::Status why);
  // Null for an id that doesn't exist, without a hint why.
  SessionRecordPtr Find(const std::string& id);
  // As Find, for a client of that tenant that comes back: also a session that is kept.
  absl::StatusOr<SessionRecordPtr> FindOrRestore(const std::string& id, const Tenant& tenant);
  // For operators of the daemon, who know a session by its number; null if there is none.
  SessionRecordPtr FindByNumber(uint64_t number);
  // What a client is told that has lost its session to another one; OK: no such thing is known.
  absl::Status WhyGone(const std::string& id);
  // A session that is not there any more by that id, as `why` says.
  void Retire(const std::string& id, absl::Status why);
  // Makes a stream the session's only one; an older one is cancelled. Returns its attachment, a
  // larger number than all before, or 0 if the session has been freed.
  uint64_t Attach(const SessionRecordPtr& record, StreamHooks stream);
  // The lease starts to run, unless another stream has taken over.
  void Detach(const SessionRecordPtr& record, uint64_t attachment);
  // Stops the session and frees it; its unread errors are returned, as far as they are to be had at
  // once. kNotFound if there is none. `reason` is for the log.
  absl::StatusOr<std::vector<SessionOutput::Error>> Close(
      const std::string& id, absl::string_view reason = kClosedByClient);
  // As its client's Close, but a session with a name and arrays saved in it waits for another one.
  absl::StatusOr<std::vector<SessionOutput::Error>> Leave(const std::string& id);
  // The same for an operator of the daemon, who knows the session by its number. `may`: for those
  // who may not end all; a session that they may not is none to them.
  absl::Status Kill(uint64_t number,
                    const std::function<bool(const SessionRecord&)>& may = nullptr);
  // Commands of batches up to this one that have not run become error values, also those that are
  // still to come; the one that runs stops. kNotFound if there is no such session.
  absl::Status Cancel(const std::string& id, uint64_t through_batch);
  std::vector<SessionRecordPtr> List();
  std::vector<SessionSnapshot> Snapshots();
  // No sessions are opened from now on, and all streams, now or later, are told by on_draining.
  void StartDraining();
  bool draining() const { return draining_; }
  // Nothing that clients have asked for runs any more: the daemon is about to end.
  void StopAll();
  bool attached(const SessionRecordPtr& record);
  const ManagerOptions& options() const { return options_; }
  uint64_t epoch() const { return epoch_; }
  const Devices& devices() const { return *devices_; }
  TenantUses& tenants() { return tenants_; }

 private:
  // What a tenant's sessions are held to.
  SessionLimits LimitsFor(const TenantPtr& tenant, const TenantPlace& place) const;
  absl::StatusOr<MemoryAccountPtr> NewAccount(const SessionLimits& limits,
                                              const TenantPlace& place) const;
  // As MemoryBudget::Relief.
  bool Relieve(const MemoryGroup* group);
  // Of sessions that do nothing now.
  bool RelieveDevice(const Device& device);
  absl::StatusOr<SessionRecordPtr> NewRecord(SessionOwner owner);
  // For metrics and the log.
  static void NoteOpened(const SessionRecord& record);
  // named_records.cc: the tenant's session of that name for a new client.
  absl::StatusOr<SessionRecordPtr> OpenNamed(SessionOwner owner);
  // Passes a session on to a record with another id, which it returns: null if it is busy, or has
  // been passed on or freed meanwhile.
  SessionRecordPtr PassOn(const SessionRecordPtr& old, SessionOwner owner, absl::Status why,
                          std::chrono::milliseconds patience);
  // Its client does not come back: what it has saved waits for another one. False: nothing is
  // saved, it has no name, or it is busy.
  bool LetWait(const SessionRecordPtr& record, std::chrono::milliseconds patience);
  std::chrono::milliseconds LeaseOf(const SessionRecord& record) const;
  // Enters a record. An error if there is no room.
  absl::Status Enter(const SessionRecordPtr& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets those go on that wait for their turn to compute, or for other ranks, and are to stop.
  void WakeStopped() const;
  // Takes a session out of the list, so that its lock and memory don't matter to others. `why`:
  // what whoever asks for it learns from now on; OK: that there is none.
  std::shared_ptr<const StreamHooks> Remove(SessionRecordPtr record, absl::Status why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For Remove.
  static absl::Status WhyEnded(absl::string_view reason);
  // Whatever it runs, and whoever carries arrays for it, ends soon.
  void Stop(SessionRecord* record) const;
  // Stops it, cuts its stream and has it destroyed. `reason` is for the log.
  void End(SessionRecordPtr record, const std::shared_ptr<const StreamHooks>& stream,
           absl::string_view reason);
  // session_leases.cc
  void ReapLoop();
  // Finds commands that take too long, and clients that have gone while theirs run.
  void WatchSessions();
  void EndExpiredShares();
  struct Late {
    SessionRecordPtr record;
    absl::string_view reason;  // for the log
  };
  // Those whose lease or time has ended by `now`; *next is brought forward to the next such end.
  std::vector<Late> LateSessions(std::chrono::steady_clock::time_point now,
                                 std::chrono::steady_clock::time_point* next)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Devices* const devices_;
  const ManagerOptions options_;
  const uint64_t epoch_;
  TenantUses tenants_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> draining_{false};
  uint64_t next_attachment_ ABSL_GUARDED_BY(mutex_) = 1;
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<std::string, SessionRecordPtr> sessions_ ABSL_GUARDED_BY(mutex_);
  NamedSessions names_ ABSL_GUARDED_BY(mutex_);
  Disposer<std::shared_ptr<void>> disposer_;  // of sessions, and of what was shared
  std::thread reaper_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_SESSION_MANAGER_H_
