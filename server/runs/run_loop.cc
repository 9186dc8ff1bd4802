#include "server/runs/run_loop.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "ops/registry.h"

namespace chx::server {
namespace {

// How soon a run that cannot go on looks again.
constexpr std::chrono::milliseconds kLook(100);
constexpr std::chrono::milliseconds kRecordingLook(1);  // at first
constexpr std::chrono::milliseconds kLongestLook(50);

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

}  // namespace

void RunLoop::Sums::Add(const std::vector<double>& values) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
  ++count;
}

std::vector<double> RunLoop::Sums::Take() {
  for (double& sum : sums) sum /= static_cast<double>(count);
  count = 0;
  return std::exchange(sums, {});
}

RunLoop::RunLoop(std::shared_ptr<Session> session, RunSpec spec)
    : session_(std::move(session)), asked_(std::move(spec)) {}

RunLoop::~RunLoop() { GiveBackAll(); }

absl::StatusOr<std::unique_ptr<RunLoop>> RunLoop::Make(const std::shared_ptr<Session>& session,
                                                       RunSpec spec) {
  CHX_RETURN_IF_ERROR(CheckRunSpec(spec));
  std::unique_ptr<RunLoop> loop(new RunLoop(session, std::move(spec)));
  loop->spec_ = &loop->asked_;
  absl::Status taken;
  session->Inspect([&](SessionState& state) {
    ++state.live_runs;
    loop->holds_ = true;
    taken = loop->Take(&state);
  });
  CHX_RETURN_IF_ERROR(taken);
  const int64_t per_epoch = loop->step_part_.rows / loop->spec_->step.batch_size;
  loop->run_ = std::make_shared<Run>(std::move(loop->asked_), session->account(), per_epoch);
  loop->spec_ = &loop->run_->spec();
  loop->step_part_.calls = &loop->spec_->step;
  if (loop->spec_->evaluation.has_value()) {
    loop->evaluation_part_.calls = &*loop->spec_->evaluation;
  }
  return loop;
}

bool RunLoop::Step(Ending* ending) {
  const size_t slots = step_part_.slots;
  const auto row = static_cast<size_t>(step_ - spec_->done);
  std::vector<double> metrics;
  const absl::Status status =
      Call(step_part_, RowsOf(step_),
           absl::MakeConstSpan(values_).subspan(slots == 0 ? 0 : row * slots, slots), &metrics);
  if (!status.ok()) {
    *ending = WhyFailed(status);
    return false;
  }
  run_->SetStep(++step_);
  return AfterStep(metrics, ending);
}

bool RunLoop::AfterStep(const std::vector<double>& metrics, Ending* ending) {
  log_.Add(metrics);
  const bool last = step_ == spec_->steps;
  const bool broken = BreaksRule(false, metrics, ending);
  if (broken || last || step_ % spec_->log_every == 0) {
    run_->Note(RunEventKind::kLog, log_.Take());
  }
  if (broken) return false;
  if (spec_->evaluation.has_value() && (last || step_ % spec_->evaluate_every == 0)) {
    return Evaluate(ending);
  }
  return true;
}

bool RunLoop::Evaluate(Ending* ending) {
  const int64_t size = spec_->evaluation->batch_size;
  Sums sums;
  for (int64_t begin = 0; begin + size <= evaluation_part_.rows; begin += size) {
    if (!MayGoOn(ending)) return false;
    rows_.resize(static_cast<size_t>(size));
    std::iota(rows_.begin(), rows_.end(), begin);
    std::vector<double> metrics;
    const absl::Status status = Call(evaluation_part_, rows_, {}, &metrics);
    if (!status.ok()) {
      *ending = WhyFailed(status);
      return false;
    }
    sums.Add(metrics);
  }
  const std::vector<double> means = sums.Take();
  run_->Note(RunEventKind::kEvaluation, means);
  return !BreaksRule(true, means, ending);
}

bool RunLoop::BreaksRule(bool of_evaluation, const std::vector<double>& metrics, Ending* ending) {
  best_.resize(spec_->rules.size());
  for (size_t i = 0; i < spec_->rules.size(); ++i) {
    const RunRule& rule = spec_->rules[i];
    if (rule.of_evaluation != of_evaluation) continue;
    const double value = metrics[rule.metric];
    bool broken = false;
    switch (rule.kind) {
      case RunRule::Kind::kNan:
        broken = std::isnan(value);
        break;
      case RunRule::Kind::kBelow:
        broken = value < rule.bound;
        break;
      case RunRule::Kind::kAbove:
        broken = value > rule.bound;
        break;
      case RunRule::Kind::kNoImprovement: {
        Best& best = best_[i];
        if (!best.any || std::isnan(best.value) || value < best.value) {
          best = {true, value, 0};
        } else {
          broken = ++best.since >= rule.patience;
        }
        break;
      }
    }
    if (!broken) continue;
    const RunCalls& calls = of_evaluation ? *spec_->evaluation : spec_->step;
    *ending = {"rule", absl::StrCat(of_evaluation ? "evaluation: " : "",
                                    calls.metrics[rule.metric].name, " ", NameOf(rule.kind))};
    return true;
  }
  return false;
}

bool RunLoop::Ended(Ending* ending) const {
  if (session_->stop().session_ended()) {
    *ending = {"session", "its session has ended"};
  } else if (run_->order() == RunOrder::kEndWithDaemon) {
    *ending = {"daemon", "the daemon has ended"};
  } else if (run_->order() == RunOrder::kStop) {
    *ending = {"stopped", ""};
  } else if (spec_->time_limit > 0 && std::chrono::steady_clock::now() >= until_) {
    *ending = {"time limit", absl::StrCat("it has run for ", spec_->time_limit, " s")};
  } else {
    return false;
  }
  return true;
}

RunLoop::Ending RunLoop::WhyFailed(const absl::Status& status) const {
  Ending ending;
  if (KindOf(status) == ErrorKind::kCancelled && Ended(&ending)) return ending;
  return {"error", std::string(status.message())};
}

bool RunLoop::MayGoOn(Ending* ending) {
  if (Ended(ending)) return false;
  if (run_->order() != RunOrder::kPause) return true;
  run_->Note(RunEventKind::kPaused, {});
  session_->runs().active.fetch_sub(1);
  bool ended = false;
  while (run_->order() == RunOrder::kPause && !(ended = Ended(ending))) {
    run_->AwaitOrder(RunOrder::kPause, kLook);
  }
  session_->runs().active.fetch_add(1);
  if (ended || Ended(ending)) return false;
  run_->Note(RunEventKind::kResumed, {});
  return true;
}

RunLoop::Ending RunLoop::RunSteps() {
  Ending ending = {"done", ""};
  if (spec_->done > 0) {
    step_ = spec_->done;
    if (!AfterStep(first_, &ending)) return ending;
  }
  while (step_ < spec_->steps) {
    if (!MayGoOn(&ending) || !Step(&ending)) return ending;
  }
  return ending;
}

void RunLoop::Work() {
  if (spec_->time_limit > 0) {
    until_ = std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                 std::chrono::duration<double>(spec_->time_limit));
  }
  run_->Note(RunEventKind::kStarted, {});
  const Ending ending = RunSteps();
  GiveBackAll();
  session_->runs().active.fetch_sub(1);
  run_->Note(RunEventKind::kEnded, {}, ending.reason, ending.text);
}

absl::Span<const int64_t> RunLoop::RowsOf(int64_t step) {
  const int64_t size = spec_->step.batch_size;
  const int64_t epoch = step / run_->steps_per_epoch();
  const int64_t begin = step % run_->steps_per_epoch() * size;
  if (!spec_->shuffle.has_value()) {
    rows_.resize(static_cast<size_t>(size));
    std::iota(rows_.begin(), rows_.end(), begin);
    return rows_;
  }
  if (order_epoch_ != epoch) {
    order_ = {};  // its memory is needed
    order_ = EpochOrder(*spec_->shuffle, epoch, step_part_.rows);
    order_epoch_ = epoch;
  }
  return absl::MakeConstSpan(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

absl::Status RunLoop::Call(const Part& part, absl::Span<const int64_t> rows,
                           absl::Span<const int64_t> values, std::vector<double>* metrics) {
  static const OpDef* const take = OpRegistry::Global().Find("take");
  window_.clear();
  command::Upload index;
  index.result = part.index;
  index.dtype = Dtype::kInt64;
  index.device = part.device;
  index.shape = {static_cast<int64_t>(rows.size())};
  index.data = {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(int64_t)};
  window_.emplace_back(std::move(index));
  for (size_t i = 0; i < part.data.size(); ++i) {
    command::ApplyOp gather;
    gather.op = static_cast<uint16_t>(take->id + 1);
    gather.inputs = {HandleOperand(part.data[i]), HandleOperand(part.index)};
    gather.results = {part.batch[i]};
    gather.attrs = {AttrValue(0), AttrValue()};
    window_.emplace_back(std::move(gather));
  }
  command::RunProgram run;
  run.program = part.program;
  run.values.assign(values.begin(), values.end());
  run.arguments = part.batch;
  run.results.assign(part.outputs, 0);
  for (size_t i = 0; i < part.values.size(); ++i) {
    run.results[part.calls->metrics[i].output] = part.values[i];
  }
  window_.emplace_back(std::move(run));
  command::Release release;
  release.handles = part.batch;
  release.handles.push_back(part.index);
  for (size_t i = 0; i < part.values.size(); ++i) {
    window_.emplace_back(command::Fetch{i, part.values[i]});
    release.handles.push_back(part.values[i]);
  }
  window_.emplace_back(std::move(release));
  output_.Clear();
  for (auto look = kRecordingLook; !session_->ExecuteForRun(window_, &output_);
       look = std::min(2 * look, kLongestLook)) {
    Ending ending;
    if (Ended(&ending)) return MakeError(ErrorKind::kCancelled, ending.text);
    std::this_thread::sleep_for(look);
  }
  return ReadValues(part, metrics);
}

}  // namespace chx::server
