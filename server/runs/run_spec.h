// What a run is asked to do.
#ifndef CHX_SERVER_RUNS_RUN_SPEC_H_
#define CHX_SERVER_RUNS_RUN_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "proto/ids.h"
#include "server/data/data_root.h"

namespace chx::server {

// An output of a program, without dimensions.
struct RunMetric {
  std::string name;
  uint32_t output = 0;
};

// An array in a file of the operator's.
struct RunFile {
  std::string path;
  std::string member;
  // As the run has begun with them.
  DataStamp stamp;
  std::string spec;  // dtype and shape; empty: not known
};

// A program and what it is called with: minibatches of arrays, along their first axis.
struct RunCalls {
  uint64_t program = 0;
  std::vector<Handle> data;  // of as many rows each
  int64_t batch_size = 0;
  std::vector<RunMetric> metrics;
  uint64_t rest = 0;           // the program for rows that are left over; 0: they are left out
  std::vector<RunFile> files;  // what is 0 in `data`, in their order
  DeviceId device = 0;         // of minibatches, if all data is in files
};

// When a run ends before its last step.
struct RunRule {
  enum class Kind : uint8_t { kNan = 0, kBelow = 1, kAbove = 2, kNoImprovement = 3 };

  Kind kind = Kind::kNan;
  bool of_evaluation = false;  // of the evaluation's metrics
  uint32_t metric = 0;
  double bound = 0;      // kBelow, kAbove
  int64_t patience = 0;  // kNoImprovement: evaluations without a smaller value than all before
};

struct RunSpec {
  std::string name;
  uint64_t attempt = 0;  // a random number: the same one again is the same call again
  RunCalls step;
  int64_t steps = 0;
  absl::optional<uint64_t> shuffle;  // the seed of the order of each epoch; else as it is
  Handle rows = 0;  // int64(steps - done, batch size): those of each step. 0: as `shuffle` says
  // Steps that the client has made already, and what their metrics came to.
  int64_t done = 0;
  std::vector<Handle> first;
  // int64(steps - done, slots): the numbers of the program that vary. 0: it has none.
  Handle values = 0;
  int64_t log_every = 1;
  absl::optional<RunCalls> evaluation;
  int64_t evaluate_every = 0;  // steps
  std::vector<RunRule> rules;
  double time_limit = 0;        // seconds; 0: none
  Handle marks = 0;             // int64(any, 2): steps, ascending, and RunMarks. 0: none
  bool equal_weights = false;   // of an evaluation's minibatches; else their rows
  int64_t snapshot_every = 0;   // steps; 0: only with the others
  double snapshot_seconds = 0;  // likewise

  bool asks_for_snapshots() const { return snapshot_every > 0 || snapshot_seconds > 0; }
  bool reads_files() const {
    return !step.files.empty() || (evaluation.has_value() && !evaluation->files.empty());
  }
  // An evaluation's minibatches count by their rows.
  bool weighs_rows() const { return evaluation->rest != 0 && !equal_weights; }
};

// What is done after a step beside the rest. Values are on the wire: bits.
struct RunMarks {
  static constexpr int64_t kLog = 1;
  static constexpr int64_t kEvaluate = 2;
  static constexpr int64_t kPause = 4;
  static constexpr int64_t kAll = 7;
};

// What can be said without the session.
absl::Status CheckRunSpec(const RunSpec& spec);

// The rows of an epoch in their order: sorted by random numbers. That of row i is word i % 2 of 64
// bits, the lower one first, of Philox4x32-10's block with the key `seed` and the counter (i / 2,
// epoch % 2^32).
std::vector<int64_t> EpochOrder(uint64_t seed, int64_t epoch, int64_t rows);

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUN_SPEC_H_
