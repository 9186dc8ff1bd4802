// Training that the daemon does by itself, whether its client is there or not (docs/runs.md).
//
//   chx::RunOptions options;
//   options.epochs = 10;
//   options.shuffle = 0;
//   const chx::RunStep step = {program, {x, t}, /*batch_size=*/64, {"loss"}};
//   absl::StatusOr<chx::Run> run = chx::StartRun(step, options);
//   chx::RunEvents events(*run);
//   for (chx::Run::Event event; *events.Next(&event);) ...
#ifndef CHX_CLIENT_RUN_H_
#define CHX_CLIENT_RUN_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "absl/types/variant.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/file_array.h"
#include "client/program.h"
#include "client/session.h"

namespace chx {

// Data of a run: an array of the session's, or one in a file on the daemon's side.
using RunData = absl::variant<Array, FileArray>;

// A program and the arrays whose rows are its arguments: minibatches, along the first axis.
struct RunStep {
  Program program;
  std::vector<RunData> data;  // of as many rows each
  int64_t batch_size = 0;     // that of the arguments the program was recorded with
  // Names of its results, in their order; those without a name are left out. They have no
  // dimensions.
  std::vector<std::string> metrics;
  // The same program for the rows that are left over in an epoch, as it was recorded with so many;
  // without it they have to be none, or be left out.
  absl::optional<Program> rest = absl::nullopt;
};

// When a run ends before its last step. "evaluation/NAME" is a metric of the evaluation.
struct StopRule {
  enum class Kind { kNan, kBelow, kAbove, kNoImprovement };

  Kind kind = Kind::kNan;
  std::string metric;
  double bound = 0;      // kBelow, kAbove
  int64_t patience = 0;  // kNoImprovement: so many values in a row without a smaller one than ever

  static StopRule Nan(std::string metric);
  static StopRule Below(std::string metric, double bound);
  static StopRule Above(std::string metric, double bound);
  static StopRule NoImprovement(std::string metric, int64_t patience);
};

// What a run does beside its step.
struct RunOptions {
  // By what an evaluation's minibatches count, of which the last one may have fewer rows.
  enum class Weights { kRows, kMinibatches };

  std::string name = "run";  // among the session's; one that has ended makes room
  int64_t epochs = 0;        // this, or `steps`
  int64_t steps = 0;
  bool drop_last = false;            // rows that are left over in an epoch are left out
  absl::optional<uint64_t> shuffle;  // the seed of the order of each epoch; else as they are
  // The rows of each step, one step after the other, instead of `epochs`, `steps` and `shuffle`.
  // The same ones may be there again.
  std::vector<int64_t> rows;
  int64_t log_every = 0;        // steps; 0: an epoch's
  std::vector<int64_t> log_at;  // steps, counted from 1; unless empty, instead of `log_every`
  absl::optional<RunStep> evaluation;
  int64_t evaluate_every = 1;        // epochs; and after the last step
  std::vector<int64_t> evaluate_at;  // steps; unless empty, instead of `evaluate_every`
  Weights evaluate_weights = Weights::kRows;
  std::vector<int64_t> pause_at;  // steps after which it pauses by itself, until Resume
  std::vector<StopRule> stop;
  double time_limit = 0;  // seconds since the start; 0: none
  // Steps after each of which the daemon, with --state-dir, writes the session to its disk; 0: only
  // as often as it writes all sessions.
  int64_t snapshot_every = 0;
  double snapshot_seconds = 0;  // likewise, in seconds; both may be given
  // Called with the number of each step, from 0, before its numbers that vary are read: it may set
  // an optimizer's hyperparameters.
  std::function<absl::Status(int64_t step)> schedule;
};

// A run of a session, by its name. Copies are the same run. Functions wait for the daemon, which
// goes on with the run whatever becomes of this object; kContext: there is none of that name any
// more.
class Run {
 public:
  // kSuspended: the daemon ends, or has been started anew and has not come to it yet.
  enum class State { kRunning, kPaused, kEnded, kSuspended };

  // Something that has happened in it.
  struct Event {
    enum class Kind { kStarted, kLog, kEvaluation, kPaused, kResumed, kWarning, kEnded };

    uint64_t number = 0;  // from 0; some are missing where there were many
    Kind kind = Kind::kStarted;
    int64_t step = 0;  // that were done
    double epoch = 0;  // the same in epochs
    double unix_time = 0;
    std::map<std::string, double> metrics;  // means since the last one, or over the evaluation
    std::string reason;   // of the end: done, stopped, rule, time limit, error, session, daemon
    std::string message;  // more about it
  };

  const std::string& name() const { return name_; }
  int64_t steps() const { return steps_; }  // that it is to make
  int64_t steps_per_epoch() const { return steps_per_epoch_; }

  absl::StatusOr<State> state() const;
  absl::StatusOr<int64_t> step() const;  // that are done
  // Those that there are, from a number on. RunEvents waits for others.
  absl::StatusOr<std::vector<Event>> Events(uint64_t start = 0) const;
  // "step", "epoch" and each metric, a value for each log event; and those of evaluations as
  // "evaluation/step" and so on.
  absl::StatusOr<std::map<std::string, std::vector<double>>> Metrics() const;

  // Waits for the end, and gives the last event. kChainerx: a step has failed;
  // absl::IsDeadlineExceeded: the run goes on.
  absl::StatusOr<Event> Wait(std::chrono::milliseconds timeout = std::chrono::milliseconds::max());
  // Copies of arrays of its session, all as the same step has left them, while it goes on. They are
  // in no graph.
  absl::StatusOr<std::vector<Array>> Weights(absl::Span<const Array> arrays) const;
  // Returns when it stands between two steps, or has ended.
  absl::Status Pause();
  absl::Status Resume();  // after Pause, or where `pause_at` has it wait
  // Ends it after the step that it makes, and waits for that.
  absl::Status Stop();

 private:
  friend class RunEvents;
  friend absl::StatusOr<Run> AttachRun(Session& session, const std::string& name);
  friend absl::StatusOr<std::vector<Run>> ListRuns(Session& session);
  struct Access;
  struct Copies;

  Ref<Session> session_;
  std::string name_;
  int64_t steps_ = 0;
  int64_t steps_per_epoch_ = 1;
  std::vector<std::string> metrics_;
  std::vector<std::string> evaluation_metrics_;
  std::shared_ptr<Copies> copies_;
};

// A run's events from a number on to the last, which is given in any case. Where some of them are
// not kept any more it goes on with the next one that is. Used by one thread at a time.
class RunEvents {
 public:
  explicit RunEvents(Run run, uint64_t start = 0) : run_(std::move(run)), next_(start) {}

  // Waits for the next one, so long at most. False: there are no more; absl::IsDeadlineExceeded:
  // there is none yet.
  absl::StatusOr<bool> Next(Run::Event* event,
                            std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

 private:
  Run run_;
  uint64_t next_;
  bool ended_ = false;
  std::vector<Run::Event> ready_;  // the next one last
};

// Starts a run: the daemon calls the step's program with minibatches, again and again, and goes on
// when this process has ended, where the session has a name. The step that Program::Trace has made
// is not one of its steps. Programs and arrays may be released afterwards.
//
// kValue: sizes that do not fit; or a run of that name goes on.
absl::StatusOr<Run> StartRun(const RunStep& step, const RunOptions& options = {});
// A run that was started before, by whatever process.
absl::StatusOr<Run> AttachRun(Session& session, const std::string& name);
// The session's, with those that have ended, oldest first.
absl::StatusOr<std::vector<Run>> ListRuns(Session& session);
// The order in which an epoch, counted from 0, of a run that is shuffled takes the rows of its data
// (docs/runs.md).
std::vector<int64_t> EpochOrder(uint64_t seed, int64_t epoch, int64_t rows);

}  // namespace chx

#endif  // CHX_CLIENT_RUN_H_
