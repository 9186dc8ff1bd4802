// Training that the daemon does by itself, whether its client is there or not.
#ifndef CHX_CLIENT_RUN_CALLS_H_
#define CHX_CLIENT_RUN_CALLS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "client/array.h"
#include "client/programs.h"

namespace chx {

// Of the names of an evaluation's metrics.
inline constexpr char kEvaluationPrefix[] = "evaluation/";

// A recorded step, and the arrays whose rows are its arguments.
struct RunCalls {
  const RecordedProgram* program = nullptr;
  std::vector<ArrayBody*> data;  // null: the next one of `files`
  std::vector<std::pair<std::string, std::string>>
      files;            // of --data-root: the path, an array's name
  DeviceId device = 0;  // if all data is in files
  int64_t batch_size = 0;
  // Names, and which of the program's results they are, which have no dimensions.
  std::vector<std::pair<std::string, uint32_t>> metrics;
  const RecordedProgram* rest = nullptr;  // for rows that are left over; null: they are left out
};

// As RunRule of proto/runs.proto.
struct RunRule {
  uint32_t kind = 0;
  bool of_evaluation = false;
  uint32_t metric = 0;
  double bound = 0;
  int64_t patience = 0;
};

// As RunSpec of proto/runs.proto.
struct RunRequest {
  std::string name;
  RunCalls step;
  int64_t steps = 0;
  absl::optional<uint64_t> shuffle;
  ArrayBody* rows = nullptr;      // of each step; null: those of `shuffle`
  int64_t done = 1;               // steps that the caller has made
  std::vector<ArrayBody*> first;  // metrics of these
  ArrayBody* values = nullptr;    // null: the program has no slots
  int64_t log_every = 1;
  absl::optional<RunCalls> evaluation;
  int64_t evaluate_every = 0;
  std::vector<RunRule> rules;
  double time_limit = 0;
  ArrayBody* marks = nullptr;  // null: none
  bool equal_weights = false;
  int64_t snapshot_every = 0;
  double snapshot_seconds = 0;
};

struct RunInfo {
  std::string name;
  uint32_t state = 0;  // 0: it runs, 1: it is paused, 2: it has ended, 3: it is suspended
  int64_t step = 0;
  int64_t steps = 0;
  int64_t steps_per_epoch = 0;
  std::vector<std::string> metrics;
  std::vector<std::string> evaluation_metrics;
};

// As RunEvent of proto/runs.proto.
struct RunEvent {
  uint64_t number = 0;
  uint32_t kind = 0;
  int64_t step = 0;
  double unix_time = 0;
  std::vector<double> values;
  std::string reason;
  std::string text;
};

struct RunNews {
  RunInfo run;
  uint64_t next = 0;     // the number of the next event that there will be
  uint64_t dropped = 0;  // events that made room for others
  std::vector<RunEvent> events;
};

enum class RunOrder : uint32_t { kGoOn = 0, kPause = 1, kStop = 2 };

// All of them wait for the daemon. Programs and arrays may be released afterwards.
absl::Status StartRun(Session* session, const RunRequest& request);
// The events from a number on; waits so long for the first, but at most some seconds.
absl::StatusOr<RunNews> WatchRun(Session* session, const std::string& name, uint64_t from,
                                 double wait_seconds);
// Counts after the step that is being made.
absl::Status ControlRun(Session* session, const std::string& name, RunOrder order);
// The session's, with those that have ended, oldest first.
absl::StatusOr<std::vector<RunInfo>> ListRuns(Session* session);

}  // namespace chx

#endif  // CHX_CLIENT_RUN_CALLS_H_
