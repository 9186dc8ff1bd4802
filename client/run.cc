#include "client/run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "client/program_state.h"
#include "client/run_calls.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr char kEvaluation[] = "evaluation/";
constexpr double kWait = 1;                        // seconds, of one question for events
constexpr uint64_t kNoEvents = uint64_t{1} << 63;  // from there on there are none
constexpr int64_t kMostSteps = int64_t{1} << 40;   // more than a daemon makes
constexpr int64_t kMostValues = int64_t{1} << 27;  // of all numbers that vary
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

// Of data without an error.
const ArraySpec& SpecOf(const RunData& data) {
  return absl::visit([](const auto& array) -> const ArraySpec& { return array.spec(); }, data);
}

// Of the data of a step, which has no errors then.
absl::StatusOr<int64_t> RowsOf(const RunStep& step) {
  if (step.data.empty()) return ValueError("[runs] expects an array of data at least");
  absl::optional<int64_t> rows;
  for (const RunData& data : step.data) {
    const auto* const array = absl::get_if<Array>(&data);
    if (array != nullptr) CHX_RETURN_IF_ERROR(array->status());
    const Shape& shape = SpecOf(data).shape;
    if (shape.size() == 0 || (rows.has_value() && *rows != shape[0])) {
      return DimensionError("[runs] expects data of as many rows each, got ",
                            SpecOf(data).ToString());
    }
    rows = shape[0];
  }
  return *rows;
}

absl::Status CheckBatches(const RunStep& step, const RecordedProgram& program) {
  if (step.data.size() != program.arguments().size()) {
    return TypeError("[runs] expects ", program.arguments().size(), " arrays of data, got ",
                     step.data.size());
  }
  for (size_t i = 0; i < step.data.size(); ++i) {
    const ArraySpec& recorded = program.arguments()[i];
    ArraySpec batch = SpecOf(step.data[i]);
    batch.shape[0] = step.batch_size;
    if (batch.shape == recorded.shape && batch.dtype == recorded.dtype) continue;
    return DimensionError("[runs] expects minibatches of ", recorded.ToString(),
                          ", as the program was recorded with, got ", batch.ToString());
  }
  return absl::OkStatus();
}

absl::StatusOr<RunCalls> CallsOf(const RunStep& step, bool drop_last) {
  CHX_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(step));
  if (step.batch_size < 1 || step.batch_size > rows) {
    return ValueError("[runs] expects minibatches of 1 to ", rows, " rows, got ", step.batch_size);
  }
  if (rows % step.batch_size != 0 && !drop_last) {
    return ValueError("[runs] expects minibatches of which ", rows,
                      " rows make a whole number, got ", step.batch_size,
                      ": drop_last leaves the others out");
  }
  RunCalls calls;
  calls.program = step.program.state()->programs[0].get();
  CHX_RETURN_IF_ERROR(CheckBatches(step, *calls.program));
  for (const RunData& data : step.data) {
    const auto* const file = absl::get_if<FileArray>(&data);
    calls.data.push_back(file == nullptr ? absl::get<Array>(data).body().get() : nullptr);
    if (file == nullptr) continue;
    if (file->session() != calls.program->session()) {
      return ValueError("[runs] expects files that the program's session has found, got '",
                        file->path(), "'");
    }
    calls.files.emplace_back(file->path(), file->name());
  }
  calls.device = SpecOf(step.data[0]).device;
  calls.batch_size = step.batch_size;
  const std::vector<ArraySpec>& results = calls.program->results();
  if (step.metrics.size() > results.size()) {
    return ValueError("[runs] expects names of at most ", results.size(), " results, got ",
                      step.metrics.size());
  }
  for (size_t i = 0; i < step.metrics.size(); ++i) {
    if (step.metrics[i].empty()) continue;
    if (results[i].ndim() != 0) {
      return DimensionError("[runs] expects metrics to be arrays without dimensions, got ",
                            step.metrics[i], " of ", results[i].ToString());
    }
    calls.metrics.emplace_back(step.metrics[i], static_cast<uint32_t>(i));
  }
  return calls;
}

absl::StatusOr<RunRule> RuleOf(const StopRule& rule, const RunRequest& request) {
  RunRule made;
  absl::string_view name = rule.metric;
  made.of_evaluation = absl::ConsumePrefix(&name, kEvaluation);
  made.kind = static_cast<uint32_t>(rule.kind);
  made.bound = rule.bound;
  made.patience = rule.patience;
  const RunCalls* calls = &request.step;
  if (made.of_evaluation) calls = request.evaluation.has_value() ? &*request.evaluation : nullptr;
  for (size_t i = 0; calls != nullptr && i < calls->metrics.size(); ++i) {
    if (calls->metrics[i].first != name) continue;
    made.metric = static_cast<uint32_t>(i);
    return made;
  }
  return ValueError("[runs] expects a rule about a metric that there is, got ", rule.metric);
}

absl::StatusOr<int64_t> StepsOf(const RunOptions& options, int64_t per_epoch) {
  if ((options.epochs == 0) == (options.steps == 0)) {
    return ValueError("[runs] expects epochs or steps");
  }
  const bool few = options.epochs <= kMostSteps / per_epoch && options.steps <= kMostSteps;
  const int64_t steps = options.steps != 0 || !few ? options.steps : options.epochs * per_epoch;
  if (few && steps >= 1) return steps;
  return ValueError("[runs] expects 1 to ", kMostSteps, " steps, got ",
                    options.steps != 0 ? options.steps : options.epochs,
                    options.steps != 0 ? "" : " epochs");
}

// What the numbers that vary are in each step. Without a body: there are none.
absl::StatusOr<ArrayPtr> ValuesOf(const RunStep& step, const RunOptions& options, int64_t steps) {
  const Program::State& state = *step.program.state();
  const auto slots = static_cast<int64_t>(state.programs[0]->num_slots());
  if (slots == 0) return ArrayPtr();
  if (steps > kMostValues / slots) {
    return ValueError("[runs] expects at most ", kMostValues / slots, " steps of a program with ",
                      slots, " numbers that vary, got ", steps);
  }
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(steps * slots));
  for (int64_t i = 0; i < steps; ++i) {
    if (options.schedule) CHX_RETURN_IF_ERROR(options.schedule(i));
    for (const Programs::Numbers& numbers : state.numbers) CHX_RETURN_IF_ERROR(numbers(&values));
  }
  const absl::string_view data(reinterpret_cast<const char*>(values.data()),
                               values.size() * sizeof(int64_t));
  return state.programs[0]->session()->Upload(data, Dtype::kInt64, {steps, slots}, 0);
}

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

absl::StatusOr<std::vector<Run::Event>> Run::Events() const {
  std::vector<Event> all;
  for (uint64_t from = 0;;) {
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
    const std::string prefix = event.kind == Event::Kind::kLog ? "" : kEvaluation;
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

absl::StatusOr<Run> StartRun(const RunStep& step, const RunOptions& options) {
  RunRequest request;
  request.name = options.name;
  request.done = 0;
  request.shuffle = options.shuffle;
  request.time_limit = options.time_limit;
  request.snapshot_every = options.snapshot_every;
  request.snapshot_seconds = options.snapshot_seconds;
  CHX_ASSIGN_OR_RETURN(request.step, CallsOf(step, options.drop_last));
  CHX_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(step));
  const int64_t per_epoch = rows / step.batch_size;
  CHX_ASSIGN_OR_RETURN(request.steps, StepsOf(options, per_epoch));
  request.log_every = options.log_every == 0 ? per_epoch : options.log_every;
  if (options.evaluation.has_value()) {
    CHX_ASSIGN_OR_RETURN(request.evaluation, CallsOf(*options.evaluation, options.drop_last));
    if (options.evaluation->program.state()->programs[0]->num_slots() > 0) {
      return ValueError("[runs] expects an evaluation without numbers that vary");
    }
    if (options.evaluate_every < 1 || options.evaluate_every > kMostSteps / per_epoch) {
      return ValueError("[runs] expects to evaluate every 1 epoch or more, got ",
                        options.evaluate_every);
    }
    request.evaluate_every = options.evaluate_every * per_epoch;
  }
  for (const StopRule& rule : options.stop) {
    CHX_ASSIGN_OR_RETURN(const RunRule made, RuleOf(rule, request));
    request.rules.push_back(made);
  }
  Session* const session = request.step.program->session().get();
  CHX_ASSIGN_OR_RETURN(const ArrayPtr values, ValuesOf(step, options, request.steps));
  request.values = values.get();
  CHX_RETURN_IF_ERROR(StartRun(session, request));
  return AttachRun(*session, options.name);
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
