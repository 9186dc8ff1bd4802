#include "server/runs/run_spec.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/error.h"
#include "server/kernels/philox.h"
#include "server/session/named_sessions.h"

namespace chx::server {
namespace {

constexpr int64_t kMaxSteps = int64_t{1} << 40;
constexpr int64_t kMaxDone = int64_t{1} << 24;
constexpr size_t kMaxList = 64;
constexpr size_t kMaxNameBytes = 128;
constexpr double kMaxSeconds = 1e9;

absl::Status CheckCalls(const RunCalls& calls) {
  if (calls.data.empty() || calls.data.size() > kMaxList) {
    return ValueError("[runs] expects 1 to ", kMaxList, " arrays of data, got ", calls.data.size());
  }
  if (static_cast<size_t>(std::count(calls.data.begin(), calls.data.end(), Handle{0})) !=
      calls.files.size()) {
    return ValueError("[runs] expects an array or a file for each argument");
  }
  if (calls.metrics.size() > kMaxList) {
    return ValueError("[runs] expects at most ", kMaxList, " metrics, got ", calls.metrics.size());
  }
  for (const RunMetric& metric : calls.metrics) {
    if (metric.name.empty() || metric.name.size() > kMaxNameBytes) {
      return ValueError("[runs] expects names of metrics of 1 to ", kMaxNameBytes, " bytes");
    }
  }
  if (calls.batch_size < 1) {
    return ValueError("[runs] expects a batch size of 1 at least, got ", calls.batch_size);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRunSpec(const RunSpec& spec) {
  if (!CheckSessionName(spec.name).ok()) {
    return ValueError("[runs] expects a run's name of 1 to ", kMaxNameBytes,
                      " letters, digits and -_./:@+");
  }
  CHX_RETURN_IF_ERROR(CheckCalls(spec.step));
  if (spec.steps < 1 || spec.steps > kMaxSteps) {
    return ValueError("[runs] expects 1 to ", kMaxSteps, " steps, got ", spec.steps);
  }
  if (spec.done < 0 || spec.done > std::min(spec.steps, kMaxDone)) {
    return ValueError("[runs] expects 0 to ", std::min(spec.steps, kMaxDone),
                      " steps that are done, got ", spec.done);
  }
  if (spec.first.size() != (spec.done == 0 ? 0 : spec.step.metrics.size())) {
    return ValueError("[runs] expects the first step's ", spec.step.metrics.size(),
                      " metrics, got ", spec.first.size());
  }
  if (spec.rows != 0 && (spec.shuffle.has_value() || spec.step.rest != 0)) {
    return ValueError("[runs] expects rows of each step, or an order of epochs, not both");
  }
  if (spec.log_every < 1) {
    return ValueError("[runs] expects to log every 1 step at most, got ", spec.log_every);
  }
  if (spec.evaluation.has_value()) {
    CHX_RETURN_IF_ERROR(CheckCalls(*spec.evaluation));
    if (spec.evaluate_every < 1) {
      return ValueError("[runs] expects to evaluate every 1 step at most, got ",
                        spec.evaluate_every);
    }
  }
  if (spec.rules.size() > kMaxList) {
    return ValueError("[runs] expects at most ", kMaxList, " rules, got ", spec.rules.size());
  }
  for (const RunRule& rule : spec.rules) {
    if (rule.of_evaluation && !spec.evaluation.has_value()) {
      return ValueError("[runs] expects an evaluation for a rule about it");
    }
    const RunCalls& calls = rule.of_evaluation ? *spec.evaluation : spec.step;
    if (rule.metric >= calls.metrics.size() || rule.kind > RunRule::Kind::kNoImprovement ||
        (rule.kind == RunRule::Kind::kNoImprovement && rule.patience < 1)) {
      return ValueError("[runs] expects rules about metrics that there are");
    }
  }
  if (!(spec.time_limit >= 0 && spec.time_limit <= kMaxSeconds)) {
    return ValueError("[runs] expects a time limit of 0 to ", kMaxSeconds, " s, got ",
                      spec.time_limit);
  }
  if (spec.snapshot_every < 0) {
    return ValueError("[runs] expects snapshots every 1 step at most, got ", spec.snapshot_every);
  }
  if (!(spec.snapshot_seconds >= 0 && spec.snapshot_seconds <= kMaxSeconds)) {
    return ValueError("[runs] expects snapshots every 0 to ", kMaxSeconds, " s, got ",
                      spec.snapshot_seconds);
  }
  return absl::OkStatus();
}

std::vector<int64_t> EpochOrder(uint64_t seed, int64_t epoch, int64_t rows) {
  std::vector<std::pair<uint64_t, int64_t>> keys(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; i += 2) {
    const kernels::PhiloxBlock block =
        kernels::Philox(seed, static_cast<uint64_t>(i / 2), static_cast<uint32_t>(epoch));
    for (int64_t j = 0; j < 2 && i + j < rows; ++j) {
      const uint64_t low = block.words[2 * j];
      const uint64_t high = block.words[2 * j + 1];
      keys[static_cast<size_t>(i + j)] = {high << 32 | low, i + j};
    }
  }
  std::sort(keys.begin(), keys.end());
  std::vector<int64_t> order;
  order.reserve(keys.size());
  for (const auto& [key, row] : keys) order.push_back(row);
  return order;
}

}  // namespace chx::server
