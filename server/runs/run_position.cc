#include "server/runs/run_position.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::server {
namespace {

const char* NameOf(RunRule::Kind kind) {
  switch (kind) {
    case RunRule::Kind::kNan:
      return "is NaN";
    case RunRule::Kind::kBelow:
      return "is below the bound";
    case RunRule::Kind::kAbove:
      return "is above the bound";
    case RunRule::Kind::kNoImprovement:
      return "has not improved";
  }
  return "";
}

bool Breaks(const RunRule& rule, double value, RunBest* best) {
  switch (rule.kind) {
    case RunRule::Kind::kNan:
      return std::isnan(value);
    case RunRule::Kind::kBelow:
      return value < rule.bound;
    case RunRule::Kind::kAbove:
      return value > rule.bound;
    case RunRule::Kind::kNoImprovement:
      if (!best->any || std::isnan(best->value) || value < best->value) {
        *best = {true, value, 0};
        return false;
      }
      return ++best->since >= rule.patience;
  }
  return false;
}

bool AreSums(const RunSums& sums, size_t metrics, int64_t most) {
  return sums.count >= 0 && sums.count <= most &&
         sums.sums.size() == (sums.count > 0 ? metrics : 0);
}

}  // namespace

void RunSums::Add(absl::Span<const double> values, int64_t weight) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += static_cast<double>(weight) * values[i];
  count += weight;
}

std::vector<double> RunSums::Take() {
  for (double& sum : sums) sum /= static_cast<double>(count);
  count = 0;
  return std::exchange(sums, {});
}

std::string RunPosition::Judge(const RunSpec& spec, bool of_evaluation,
                               absl::Span<const double> metrics) {
  best.resize(spec.rules.size());
  for (size_t i = 0; i < spec.rules.size(); ++i) {
    const RunRule& rule = spec.rules[i];
    if (rule.of_evaluation != of_evaluation || !Breaks(rule, metrics[rule.metric], &best[i])) {
      continue;
    }
    const RunCalls& calls = of_evaluation ? *spec.evaluation : spec.step;
    return absl::StrCat(of_evaluation ? "evaluation: " : "", calls.metrics[rule.metric].name, " ",
                        NameOf(rule.kind));
  }
  return "";
}

absl::Status CheckRunPosition(const RunSpec& spec, const RunPosition& position) {
  bool valid = position.step >= spec.done && position.step <= spec.steps &&
               AreSums(position.log, spec.step.metrics.size(), position.step) &&
               (position.best.empty() || position.best.size() == spec.rules.size()) &&
               position.seconds >= 0 && std::isfinite(position.seconds);
  for (const RunBest& best : position.best) {
    valid = valid && best.since >= 0 && best.since <= position.step;
  }
  if (spec.evaluation.has_value() && position.evaluates) {
    const int64_t size = spec.evaluation->batch_size;
    valid =
        valid && position.evaluation_row >= 0 && position.evaluation_row % size == 0 &&
        AreSums(position.evaluation, spec.evaluation->metrics.size(), position.evaluation_row) &&
        position.evaluation.count == position.evaluation_row / (spec.weighs_rows() ? 1 : size);
  } else {
    valid = valid && !position.evaluates && position.evaluation_row == 0 &&
            position.evaluation.count == 0 && position.evaluation.sums.empty();
  }
  const absl::string_view reasons[] = {"", "rule", "error", "stopped", "time limit"};
  valid = valid && std::count(std::begin(reasons), std::end(reasons), position.reason) == 1;
  return valid ? absl::OkStatus() : ValueError("[runs] expects a position of the run");
}

}  // namespace chx::server
