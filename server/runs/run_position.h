// How far a run is: what it goes on from, beside its arrays.
#ifndef CHX_SERVER_RUNS_RUN_POSITION_H_
#define CHX_SERVER_RUNS_RUN_POSITION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/runs/run_spec.h"

namespace chx::server {

// Sums of metrics, for their means.
struct RunSums {
  std::vector<double> sums;
  int64_t count = 0;  // the sum of weights

  void Add(absl::Span<const double> values, int64_t weight = 1);
  // The means. Begins anew.
  std::vector<double> Take();
};

// What a rule's metric has come to.
struct RunBest {
  bool any = false;
  double value = 0;
  int64_t since = 0;  // values that were no smaller
};

struct RunPosition {
  int64_t step = 0;           // that are done
  RunSums log;                // since the last log event
  std::vector<RunBest> best;  // by rule
  bool evaluates = false;     // behind that step, from this row on
  int64_t evaluation_row = 0;
  RunSums evaluation;
  double seconds = 0;  // that it had run when the daemon began
  // A step has ended it, for this reason; else empty.
  std::string reason;
  std::string text;

  // Counts what a step, or a rule's metric of an evaluation, has come to. The rule that ends the
  // run, as the text of its end; empty: none.
  std::string Judge(const RunSpec& spec, bool of_evaluation, absl::Span<const double> metrics);
};

// A position that a run of this spec may have.
absl::Status CheckRunPosition(const RunSpec& spec, const RunPosition& position);

}  // namespace chx::server

#endif  // CHX_SERVER_RUNS_RUN_POSITION_H_
