// Sessions on disk: written while the daemon runs and at its end, and taken up by the next one.
#ifndef CHX_SERVER_STATE_STATE_STORE_H_
#define CHX_SERVER_STATE_STATE_STORE_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/session/session_manager.h"
#include "server/state/session_files.h"

namespace chx::server {

struct StateOptions {
  std::string folder;
  std::chrono::milliseconds interval{0};  // between snapshots of sessions that changed; 0: none
  int keep = 1;                           // snapshots of each session
  // Null: there is no such tenant any more.
  std::function<TenantPtr(const std::string& name)> find_tenant;
  // As ReadStreamState of server/rpc.
  std::function<absl::StatusOr<std::unique_ptr<TransportState>>(const MemoryAccountPtr& account,
                                                                absl::string_view data)>
      read_stream;
  // A session is restored; null: nobody wants to know.
  std::function<void(const SessionRecordPtr& record)> on_restored;
};

// What a round of snapshots came to.
struct SnapshotCounts {
  int sessions = 0;  // written
  int failed = 0;    // as the log says
  absl::Status why;  // the first of them has failed
  uint64_t bytes = 0;
};

// The daemon's one. Each session has files of its own, by a random name. Thread-safe.
class StateStore {
 public:
  // Opens the folder. An error if it cannot be used, or others may write to it.
  static absl::StatusOr<std::unique_ptr<StateStore>> Open(StateOptions options);
  ~StateStore();

  // Takes up the sessions of the last daemon, and begins with the snapshots that the options ask
  // for. A file that is damaged or does not fit stays where it is, and the log says why. The
  // session is restored later, if it can be by then when its client asks for it.
  void Start(SessionManager* manager);
  // Writes all sessions, each between two of its batches; waits that long for one that is busy.
  SnapshotCounts SnapshotAll(std::chrono::milliseconds patience);
  // Of one session, by its number in listings.
  absl::StatusOr<SnapshotCounts> SnapshotOne(uint64_t number, std::chrono::milliseconds patience);
  // Writes a session soon, as those at intervals. Does not wait. Whoever asks without end makes the
  // session wait for half of the time.
  void SnapshotSoon(const Session* session);
  // The session has ended. Does not wait.
  void Forget(const std::string& key);
  // No more snapshots at intervals. Before the manager goes.
  void Stop();

 private:
  explicit StateStore(StateOptions options) : options_(std::move(options)) {}
  struct Kept;
  // From the newest of its snapshots that is not damaged. *kept: whose they are, also if none can
  // be restored; without an id: nobody knows.
  absl::Status Restore(Kept* kept);
  absl::Status RestoreFrom(const std::string& name, Kept* kept);
  // That it was restored from an older one. `newest`: the session's id in the one that is damaged.
  void NoteOlder(const Kept& kept, const std::string& name, const std::string& newest,
                 const absl::Status& damaged);
  // For a client that asks for it. Waits a while for other sessions that are being restored.
  absl::Status RestoreKept(Kept* kept);
  std::string PathOf(const std::string& name) const;
  // What clients are told of a session that could not be restored.
  absl::Status NotRestored(const absl::Status& why) const;
  // *bytes: of the file.
  absl::Status Write(const SessionRecordPtr& record, std::chrono::milliseconds patience,
                     uint64_t* bytes);
  void RemoveEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  // The thread: waits for the next interval, or until somebody asks; the asked sessions. False: it
  // is to end.
  bool AwaitWork(std::chrono::steady_clock::time_point interval,
                 std::chrono::steady_clock::time_point asked, std::set<const Session*>* sessions);
  void SnapshotWhenDue();
  void SnapshotChanged();
  // False: the log says why.
  bool SnapshotForThread(const SessionRecordPtr& record);

  const StateOptions options_;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<SessionFiles> files_;
  SessionManager* manager_ = nullptr;
  Mutex restoring_;  // one at a time: two might take from each other the memory that one needs
  Mutex writing_;    // held while a file is written or removed
  std::map<std::string, int64_t> written_at_;  // of the thread: commands and uploads so far
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> ended_ ABSL_GUARDED_BY(mutex_);  // whose files are to go
  std::set<const Session*> asked_ ABSL_GUARDED_BY(mutex_);  // for snapshots soon
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_STATE_STATE_STORE_H_
