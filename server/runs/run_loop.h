// The steps of a run, one after the other, as a client of its session's.
#ifndef CHX_SERVER_RUNS_RUN_LOOP_H_
#define CHX_SERVER_RUNS_RUN_LOOP_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/runs/run.h"
#include "server/runs/step_table.h"
#include "server/session/session.h"

namespace chx::server {

// What a thread and its stack may take, and the records of the run.
inline constexpr int64_t kRunBytes = int64_t{192} << 10;

// Asks for a snapshot of a session, soon. Does not wait.
using AskForSnapshot = std::function<void(const Session* session)>;

// What all runs of a daemon have.
struct RunsOptions {
  AskForSnapshot snapshot;         // null: sessions, and so runs, end with the daemon
  const DataRoot* data = nullptr;  // null: there are no files
};

// Used by one thread at a time.
class RunLoop {
 public:
  // Takes from the session what the run needs, whatever becomes of the client's handles; an error
  // if that does not fit.
  static absl::StatusOr<std::unique_ptr<RunLoop>> Make(const std::shared_ptr<Session>& session,
                                                       RunSpec spec, RunsOptions options);
  // Of a run that is suspended: what it needs is in the session under its own handles, or it is an
  // error. So is `may_read_files`, if it does.
  static absl::StatusOr<std::unique_ptr<RunLoop>> Resume(const std::shared_ptr<Session>& session,
                                                         const absl::Status& may_read_files,
                                                         std::shared_ptr<Run> run,
                                                         RunsOptions options);
  // Gives it back, if Work has not.
  ~RunLoop();
  RunLoop(const RunLoop&) = delete;

  const std::shared_ptr<Run>& run() const { return run_; }
  // The session keeps what the run needs: it is suspended.
  void Leave() { holds_ = false; }
  // Runs to the end, or until it is suspended: then the session keeps what it needs. Fails in no
  // other way than by the run's last event.
  void Work();

 private:
  struct Callee {
    uint64_t program = 0;  // 0: there is none
    size_t slots = 0;
    size_t outputs = 0;
  };
  // An array in a file, and rows of it on their way.
  struct FilePart {
    DataArray array;
    std::string rows;
  };
  // Programs with their data, under handles of the run's.
  struct Part {
    const RunCalls* calls = nullptr;
    Callee whole;
    Callee rest;  // for minibatches of fewer rows, if there are such
    int64_t rows = 0;
    DeviceId device = 0;
    Handles data;  // 0: the next one of `files`
    std::vector<FilePart> files;
    Handles batch;   // minibatches
    Handles values;  // of the metrics
    Handle index = 0;
  };
  // Why the run ends.
  struct Ending {
    std::string reason;
    std::string text;
  };
  // What its metrics are counted by, under the session's lock.
  using Count = void (RunLoop::*)(absl::Span<const double> metrics);

  RunLoop(std::shared_ptr<Session> session, RunsOptions options);
  // Under the session's lock. What the spec names is then the run's own; with `own` it is already,
  // in a spec that was read from a snapshot.
  absl::Status Take(bool own, RunSpec* spec, SessionState* state);
  static absl::Status TakeProgram(bool own, uint64_t* number, const RunCalls& calls,
                                  SessionState* state, Callee* callee);
  // `any_rows`: its minibatches may have the same rows again.
  absl::Status TakePart(bool own, bool any_rows, RunCalls* calls, SessionState* state, Part* part);
  // An int64 array of that shape. *handle is then the run's own.
  static absl::StatusOr<Array> TakeTable(bool own, Handle* handle, const char* what,
                                         const Shape& shape, SessionState* state);
  absl::StatusOr<ArraySpec> TakeFile(bool own, RunCalls* calls, Part* part);
  // What the rows of a minibatch take.
  static absl::StatusOr<int64_t> FileBytes(const Part& part, int64_t batch_size);
  absl::Status TakeValues(bool own, RunSpec* spec, SessionState* state);
  absl::Status TakeRows(bool own, RunSpec* spec, SessionState* state);
  absl::Status TakeMarks(bool own, RunSpec* spec, SessionState* state);
  // The metrics of the steps that the client has made, of one step after the other.
  static absl::StatusOr<std::vector<double>> TakeFirst(const RunSpec& spec, SessionState* state,
                                                       MemoryCharge* charge);
  void SetRun(std::shared_ptr<Run> run);
  void CountFirst(const std::vector<double>& metrics);
  // Of an epoch.
  int64_t CountSteps(const RunSpec& spec) const;
  // Of a step in the values.
  int64_t NumSlots() const {
    return static_cast<int64_t>(std::max(step_part_.whole.slots, step_part_.rest.slots));
  }
  void GiveBack(SessionState* state);

  // Waits while it is paused. False: *ending says why it goes on no more.
  bool MayGoOn(Ending* ending);
  bool Ended(Ending* ending) const;
  Ending WhyFailed(const absl::Status& status) const;
  // Calls the program with these rows, and counts what comes of it.
  void Call(Part* called, absl::Span<const int64_t> rows, absl::Span<const int64_t> values,
            Count count);
  // Without the session's lock: a disk may be slow.
  absl::Status ReadFiles(Part* part, absl::Span<const int64_t> rows) const;
  // Under the session's lock.
  absl::Status ReadValues(const Part& part, std::vector<double>* metrics) const;
  void CountStep(absl::Span<const double> metrics);
  void CountEvaluation(absl::Span<const double> metrics);
  // That its next minibatch has; 0: it has no more.
  int64_t EvaluationRows() const;
  void EndEvaluation();
  void PauseIfMarked();
  void EndBy(Ending ending);

  absl::StatusOr<absl::Span<const int64_t>> RowsOf(int64_t step);
  // RunMarks of a step that was made.
  int64_t Marks(int64_t step) const;
  void Step();
  void Evaluate();
  void SnapshotIfDue(bool stepped);
  Ending RunSteps();

  const std::shared_ptr<Session> session_;
  const RunsOptions options_;
  std::shared_ptr<Run> run_;
  const RunSpec* spec_ = nullptr;  // the run's
  RunPosition* position_ = nullptr;
  bool holds_ = false;
  bool paused_ = false;                                 // as the last event about it has said
  std::chrono::steady_clock::time_point snapshot_due_;  // if the spec has seconds
  MemoryCharge charge_;                                 // of the run, and what follows
  Part step_part_;
  Part evaluation_part_;
  StepTable values_;
  StepTable given_rows_;
  Handle marks_handle_ = 0;
  std::vector<int64_t> marks_;  // (step, RunMarks) one after the other
  MemoryCharge marks_charge_;
  std::vector<int64_t> order_;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> rows_;
  std::vector<double> metrics_;
  std::vector<Command> window_;
  SessionOutput output_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUN_LOOP_H_
