#include "client/run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "client/ops.h"
#include "client/program_state.h"
#include "client/run_calls.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr double kWait = 1;                        // seconds, of one question for events
constexpr uint64_t kNoEvents = uint64_t{1} << 63;  // from there on there are none
constexpr auto kForever = std::chrono::milliseconds::max();

using Clock = std::chrono::steady_clock;

// Seconds until then, no more than one question takes.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) {
    if (timeout != kForever) end_ = Clock::now() + timeout;
  }
  double Wait() const {
    if (!end_.has_value()) return kWait;
    const std::chrono::duration<double> left = *end_ - Clock::now();
    return std::min(kWait, std::max(left.count(), 0.0));
  }
  bool Over() const { return end_.has_value() && Clock::now() >= *end_; }

 private:
  absl::optional<Clock::time_point> end_;
};

}  // namespace

StopRule StopRule::Nan(std::string metric) { return {Kind::kNan, std::move(metric)}; }
StopRule StopRule::Below(std::string metric, double bound) {
  return {Kind::kBelow, std::move(metric), bound};
}
StopRule StopRule::Above(std::string metric, double bound) {
  return {Kind::kAbove, std::move(metric), bound};
}
StopRule StopRule::NoImprovement(std::string metric, int64_t patience) {
  return {Kind::kNoImprovement, std::move(metric), 0, patience};
}

// The program of Weights, for arrays as it was called with last.
struct Run::Copies {
  Mutex mutex;
  absl::optional<Program> program ABSL_GUARDED_BY(mutex);
};

// What it is made of.
struct Run::Access {
  static Run From(Session* session, RunInfo info) {
    Run run;
    run.session_ = Ref<Session>(session);
    run.name_ = std::move(info.name);
    run.steps_ = info.steps;
    run.steps_per_epoch_ = std::max<int64_t>(info.steps_per_epoch, 1);
    run.metrics_ = std::move(info.metrics);
    run.evaluation_metrics_ = std::move(info.evaluation_metrics);
    run.copies_ = std::make_shared<Copies>();
    return run;
  }

  static absl::StatusOr<RunInfo> Ask(const Run& run) {
    CHX_ASSIGN_OR_RETURN(RunNews news, WatchRun(run.session_.get(), run.name_, kNoEvents, 0));
    return std::move(news.run);
  }

  static Event EventFrom(const Run& run, const RunEvent& raw) {
    Event event;
    event.number = raw.number;
    event.kind = static_cast<Event::Kind>(raw.kind);
    event.step = raw.step;
    event.epoch = static_cast<double>(raw.step) / static_cast<double>(run.steps_per_epoch_);
    event.unix_time = raw.unix_time;
    const bool of_evaluation = event.kind == Event::Kind::kEvaluation;
    const std::vector<std::string>& names = of_evaluation ? run.evaluation_metrics_ : run.metrics_;
    for (size_t i = 0; i < std::min(names.size(), raw.values.size()); ++i) {
      event.metrics.emplace(names[i], raw.values[i]);
    }
    event.reason = raw.reason;
    event.message = raw.text;
    return event;
  }

  // Events from a number on; *from: the number of the next one.
  static absl::StatusOr<std::vector<Event>> Watch(const Run& run, double wait, uint64_t* from) {
    Session* const session = run.session_.get();
    CHX_ASSIGN_OR_RETURN(RunNews news, WatchRun(session, run.name_, *from, wait));
    const bool ended = news.run.state == static_cast<uint32_t>(State::kEnded);
    if (news.events.empty() && ended && news.next <= *from) {
      // It has been told, or another run has the name by now: the last event says so.
      const uint64_t last = news.next - std::min<uint64_t>(news.next, 1);
      CHX_ASSIGN_OR_RETURN(news, WatchRun(session, run.name_, last, wait));
    }
    std::vector<Event> events;
    for (const RunEvent& event : news.events) events.push_back(EventFrom(run, event));
    if (!events.empty()) *from = events.back().number + 1;
    return events;
  }

  // Until it is in one of these states.
  static absl::Status Control(const Run& run, RunOrder order, absl::Span<const State> states) {
    Session* const session = run.session_.get();
    CHX_ASSIGN_OR_RETURN(const RunNews before, WatchRun(session, run.name_, kNoEvents, 0));
    CHX_RETURN_IF_ERROR(ControlRun(session, run.name_, order));
    for (uint64_t from = before.next;;) {
      CHX_ASSIGN_OR_RETURN(const RunNews news, WatchRun(session, run.name_, from, kWait));
      for (State state : states) {
        if (news.run.state == static_cast<uint32_t>(state)) return absl::OkStatus();
      }
      // It may have paused again by itself.
      for (const RunEvent& event : news.events) {
        if (order == RunOrder::kGoOn &&
            event.kind == static_cast<uint32_t>(Event::Kind::kResumed)) {
          return absl::OkStatus();
        }
      }
      from = news.next;
    }
  }
};

absl::StatusOr<Run::State> Run::state() const {
  CHX_ASSIGN_OR_RETURN(const RunInfo info, Access::Ask(*this));
  return static_cast<State>(info.state);
}

absl::StatusOr<int64_t> Run::step() const {
  CHX_ASSIGN_OR_RETURN(const RunInfo info, Access::Ask(*this));
  return info.step;
}

absl::StatusOr<std::vector<Run::Event>> Run::Events(uint64_t start) const {
  std::vector<Event> all;
  for (uint64_t from = start;;) {
    CHX_ASSIGN_OR_RETURN(std::vector<Event> events, Access::Watch(*this, 0, &from));
    if (events.empty()) return all;
    for (Event& event : events) all.push_back(std::move(event));
    if (all.back().kind == Event::Kind::kEnded) return all;
  }
}

absl::StatusOr<std::map<std::string, std::vector<double>>> Run::Metrics() const {
  CHX_ASSIGN_OR_RETURN(const std::vector<Event> events, Events());
  std::map<std::string, std::vector<double>> metrics;
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kLog && event.kind != Event::Kind::kEvaluation) continue;
    const std::string prefix = event.kind == Event::Kind::kLog ? "" : kEvaluationPrefix;
    metrics[prefix + "step"].push_back(static_cast<double>(event.step));
    metrics[prefix + "epoch"].push_back(event.epoch);
    for (const auto& [name, value] : event.metrics) metrics[prefix + name].push_back(value);
  }
  return metrics;
}

absl::StatusOr<Run::Event> Run::Wait(std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  for (uint64_t from = 0;;) {
    CHX_ASSIGN_OR_RETURN(const std::vector<Event> events,
                         Access::Watch(*this, deadline.Wait(), &from));
    if (!events.empty() && events.back().kind == Event::Kind::kEnded) {
      const Event& last = events.back();
      if (last.reason != "error") return last;
      return ChainerxError("run '", name_, "': ", last.message);
    }
    if (deadline.Over()) {
      return absl::DeadlineExceededError(absl::StrCat("[runs] '", name_, "' has not ended yet"));
    }
  }
}

absl::StatusOr<std::vector<Array>> Run::Weights(absl::Span<const Array> arrays) const {
  CHX_ASSIGN_OR_RETURN(const std::vector<ArrayBody*> bodies, internal::BodiesOf(arrays));
  MutexLock lock(&copies_->mutex);
  absl::optional<Program>& program = copies_->program;
  if (program.has_value() && program->state()->programs[0]->CheckArguments(bodies).ok()) {
    return program->Run(arrays);  // one command: no step comes between two of the copies
  }
  const auto copy_all = [](absl::Span<const Array> originals) -> Program::Results {
    std::vector<Array> copies;
    for (const Array& original : originals) copies.push_back(copy(original.AsGradStopped()));
    return copies;
  };
  CHX_ASSIGN_OR_RETURN(program, Program::Trace(*session_, copy_all, arrays));
  // The run has waited while it was recorded.
  return std::exchange(program->state()->first_results, {});
}

absl::Status Run::Pause() {
  return Access::Control(*this, RunOrder::kPause, {State::kPaused, State::kEnded});
}

absl::Status Run::Resume() {
  return Access::Control(*this, RunOrder::kGoOn, {State::kRunning, State::kEnded});
}

absl::Status Run::Stop() { return Access::Control(*this, RunOrder::kStop, {State::kEnded}); }

absl::StatusOr<bool> RunEvents::Next(Run::Event* event, std::chrono::milliseconds timeout) {
  const Deadline deadline(timeout);
  while (ready_.empty() && !ended_) {
    CHX_ASSIGN_OR_RETURN(ready_, Run::Access::Watch(run_, deadline.Wait(), &next_));
    std::reverse(ready_.begin(), ready_.end());
    if (ready_.empty() && deadline.Over()) {
      return absl::DeadlineExceededError(
          absl::StrCat("[runs] no event of '", run_.name(), "' yet"));
    }
  }
  if (ready_.empty()) return false;
  *event = std::move(ready_.back());
  ready_.pop_back();
  ended_ = event->kind == Run::Event::Kind::kEnded;
  return true;
}

absl::StatusOr<Run> AttachRun(Session& session, const std::string& name) {
  CHX_ASSIGN_OR_RETURN(RunNews news, WatchRun(&session, name, kNoEvents, 0));
  return Run::Access::From(&session, std::move(news.run));
}

absl::StatusOr<std::vector<Run>> ListRuns(Session& session) {
  CHX_ASSIGN_OR_RETURN(std::vector<RunInfo> infos, ListRuns(&session));
  std::vector<Run> runs;
  runs.reserve(infos.size());
  for (RunInfo& info : infos) runs.push_back(Run::Access::From(&session, std::move(info)));
  return runs;
}

}  // namespace chx
