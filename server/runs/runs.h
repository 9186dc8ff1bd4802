// All runs of a daemon: training that goes on without its client.
#ifndef CHX_SERVER_RUNS_RUNS_H_
#define CHX_SERVER_RUNS_RUNS_H_

#include <chrono>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/runs/run.h"
#include "server/runs/run_loop.h"
#include "server/session/session.h"
#include "server/tenancy/tenant_use.h"

namespace chx::server {

// Runs belong to sessions, and live as long as these. Each that has not ended has a thread, which
// executes commands in the session as a client's does. Thread-safe.
class Runs {
 public:
  static constexpr int kMaxActive = 8;  // of a session
  static constexpr size_t kMaxOfDaemon = 1024;
  static constexpr int kMaxKept = 64;  // with those that have ended, of which the oldest goes

  explicit Runs(RunsOptions options = {}) : options_(std::move(options)) {}
  ~Runs() { Stop(); }
  Runs(const Runs&) = delete;

  // `place`: what the session computes and has its memory from, for as long as the run has it.
  // Gives the run of that name if it is of the same attempt; else there must be none that goes on.
  absl::StatusOr<std::shared_ptr<Run>> Start(const std::shared_ptr<Session>& session,
                                             TenantPlace place, RunSpec spec);
  // A kValue error if the session has none of that name.
  static absl::StatusOr<std::shared_ptr<Run>> Find(Session* session, const std::string& name);
  static std::vector<std::shared_ptr<Run>> List(Session* session);
  // Of a session that is restored from a snapshot, after its arrays and programs. Those that have
  // not ended are suspended, or have ended if they cannot go on. A record that is none is left out.
  // Returns the first such error; all others are there.
  static absl::Status Restore(Session* session, std::vector<RunRecord> records);
  // Those of a restored session that are suspended go on: now, or with Serve. One that cannot ends,
  // and so does one that reads files, if `may_read_files` is an error.
  void Resume(const std::shared_ptr<Session>& session, absl::Status may_read_files,
              TenantPlace place);
  // The daemon serves.
  void Serve();
  // None start any more, and all end, or are suspended, after their steps.
  void AskToEnd();
  // Waits for that, but no longer: sessions whose runs have not ended by then are ended.
  void EndWithin(std::chrono::milliseconds patience);

 private:
  struct OfSession;
  struct Worker {
    std::shared_ptr<Run> run;  // until it ends
    std::weak_ptr<Session> session;
    std::thread thread;
    bool done = false;
  };

  // Restored, before the daemon serves.
  struct Waiting {
    std::weak_ptr<Session> session;
    absl::Status may_read_files;
    TenantPlace place;
  };

  static std::shared_ptr<OfSession> KeptBy(Session* session);
  // Has a thread work.
  absl::Status Launch(const std::shared_ptr<Session>& session, TenantPlace place,
                      std::unique_ptr<RunLoop> loop);
  void ResumeAll(const std::shared_ptr<Session>& session, const absl::Status& may_read_files,
                 const TenantPlace& place);
  void Stop();
  // Joins those that are done.
  void Reap() ABSL_LOCKS_EXCLUDED(mutex_);

  const RunsOptions options_;
  Mutex mutex_;
  CondVar ended_;
  bool serves_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<Worker> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUNS_H_
