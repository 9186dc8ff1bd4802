// StartRun of client/run.h: what a run is asked to do, checked and put into arrays.
#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/program_state.h"
#include "client/run.h"
#include "client/run_calls.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 40;   // more than a daemon makes
constexpr int64_t kNever = int64_t{1} << 62;       // steps
constexpr int64_t kMostValues = int64_t{1} << 27;  // of all numbers that vary

// What is done after a step beside the rest, as in `marks` of proto/runs.proto.
constexpr int64_t kLogMark = 1;
constexpr int64_t kEvaluateMark = 2;
constexpr int64_t kPauseMark = 4;

// Of data without an error.
const ArraySpec& SpecOf(const RunData& data) {
  return absl::visit([](const auto& array) -> const ArraySpec& { return array.spec(); }, data);
}

const RecordedProgram& Recorded(const Program& program) { return *program.state()->programs[0]; }

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

// That the program is for minibatches of so many rows, and gives the metrics.
absl::Status CheckProgram(const RunStep& step, const RecordedProgram& program, int64_t rows) {
  if (step.data.size() != program.arguments().size()) {
    return TypeError("[runs] expects ", program.arguments().size(), " arrays of data, got ",
                     step.data.size());
  }
  for (size_t i = 0; i < step.data.size(); ++i) {
    const ArraySpec& recorded = program.arguments()[i];
    ArraySpec batch = SpecOf(step.data[i]);
    batch.shape[0] = rows;
    if (batch.shape == recorded.shape && batch.dtype == recorded.dtype) continue;
    return DimensionError("[runs] expects minibatches of ", recorded.ToString(),
                          ", as the program was recorded with, got ", batch.ToString());
  }
  const std::vector<ArraySpec>& results = program.results();
  if (step.metrics.size() > results.size()) {
    return ValueError("[runs] expects names of at most ", results.size(), " results, got ",
                      step.metrics.size());
  }
  for (size_t i = 0; i < step.metrics.size(); ++i) {
    if (step.metrics[i].empty() || results[i].ndim() == 0) continue;
    return DimensionError("[runs] expects metrics to be arrays without dimensions, got ",
                          step.metrics[i], " of ", results[i].ToString());
  }
  return absl::OkStatus();
}

// The step without what becomes of rows that are left over.
absl::StatusOr<RunCalls> WholeCallsOf(const RunStep& step) {
  if (step.batch_size < 1) {
    return ValueError("[runs] expects minibatches of 1 row at least, got ", step.batch_size);
  }
  RunCalls calls;
  calls.program = &Recorded(step.program);
  CHX_RETURN_IF_ERROR(CheckProgram(step, *calls.program, step.batch_size));
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
  for (size_t i = 0; i < step.metrics.size(); ++i) {
    if (step.metrics[i].empty()) continue;
    calls.metrics.emplace_back(step.metrics[i], static_cast<uint32_t>(i));
  }
  return calls;
}

absl::StatusOr<RunCalls> CallsOf(const RunStep& step, int64_t rows, bool drop_last) {
  if (step.batch_size < 1 || step.batch_size > rows) {
    return ValueError("[runs] expects minibatches of 1 to ", rows, " rows, got ", step.batch_size);
  }
  const int64_t left = rows % step.batch_size;
  if (left != 0 && !drop_last && !step.rest.has_value()) {
    return ValueError("[runs] expects minibatches of which ", rows,
                      " rows make a whole number, or a program for the rest, got ", step.batch_size,
                      ": drop_last leaves the others out");
  }
  CHX_ASSIGN_OR_RETURN(RunCalls calls, WholeCallsOf(step));
  if (left == 0 || drop_last) return calls;
  calls.rest = &Recorded(*step.rest);
  CHX_RETURN_IF_ERROR(CheckProgram(step, *calls.rest, left));
  return calls;
}

absl::StatusOr<RunRule> RuleOf(const StopRule& rule, const RunRequest& request) {
  RunRule made;
  absl::string_view name = rule.metric;
  made.of_evaluation = absl::ConsumePrefix(&name, kEvaluationPrefix);
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

// Of rows that are given.
absl::StatusOr<int64_t> GivenSteps(const RunStep& step, const RunOptions& options, int64_t rows) {
  if (options.epochs != 0 || options.steps != 0 || options.shuffle.has_value() ||
      step.rest.has_value()) {
    return ValueError("[runs] expects rows, or epochs, steps, shuffle and a program for the rest");
  }
  const auto count = static_cast<int64_t>(options.rows.size());
  if (count % step.batch_size != 0) {
    return ValueError("[runs] expects rows of whole minibatches of ", step.batch_size, ", got ",
                      count);
  }
  for (int64_t row : options.rows) {
    if (row >= 0 && row < rows) continue;
    return ValueError("[runs] expects rows of 0 to ", rows - 1, ", got ", row);
  }
  return count / step.batch_size;
}

// An array int64(rows, columns) of these numbers.
absl::StatusOr<ArrayPtr> TableOf(const std::vector<int64_t>& numbers, int64_t columns,
                                 Session* session) {
  const absl::string_view data(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof(int64_t));
  return session->Upload(data, Dtype::kInt64,
                         {static_cast<int64_t>(numbers.size()) / columns, columns}, 0);
}

// What the numbers that vary are in each step. Without a body: there are none.
absl::StatusOr<ArrayPtr> ValuesOf(const RunStep& step, const RunRequest& request, int64_t per_epoch,
                                  const std::function<absl::Status(int64_t)>& schedule) {
  const bool has_rest = request.step.rest != nullptr;
  const size_t slots =
      std::max(request.step.program->num_slots(), has_rest ? request.step.rest->num_slots() : 0);
  if (slots == 0) return ArrayPtr();
  const int64_t most = kMostValues / static_cast<int64_t>(slots);
  if (request.steps > most) {
    return ValueError("[runs] expects at most ", most, " steps of a program with ", slots,
                      " numbers that vary, got ", request.steps);
  }
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(request.steps) * slots);
  for (int64_t i = 0; i < request.steps; ++i) {
    if (schedule) CHX_RETURN_IF_ERROR(schedule(i));
    const Program& program = has_rest && (i + 1) % per_epoch == 0 ? *step.rest : step.program;
    for (const Programs::Numbers& numbers : program.state()->numbers) {
      CHX_RETURN_IF_ERROR(numbers(&values));
    }
    values.resize(static_cast<size_t>(i + 1) * slots);
  }
  return TableOf(values, static_cast<int64_t>(slots), request.step.program->session().get());
}

// What is done after steps beside the rest. Without a body: nothing.
absl::StatusOr<ArrayPtr> MarksOf(const RunOptions& options, const RunRequest& request) {
  std::map<int64_t, int64_t> marks;
  for (const auto& [name, steps, mark] :
       {std::make_tuple("log_at", &options.log_at, kLogMark),
        std::make_tuple("evaluate_at", &options.evaluate_at, kEvaluateMark),
        std::make_tuple("pause_at", &options.pause_at, kPauseMark)}) {
    for (int64_t step : *steps) {
      if (step < 1 || step > request.steps) {
        return ValueError("[runs] expects ", name, " of steps 1 to ", request.steps, ", got ",
                          step);
      }
      marks[step] |= mark;
    }
  }
  if (marks.empty()) return ArrayPtr();
  std::vector<int64_t> table;
  for (const auto& [step, mark] : marks) table.insert(table.end(), {step, mark});
  return TableOf(table, 2, request.step.program->session().get());
}

absl::Status AddEvaluation(const RunOptions& options, int64_t per_epoch, RunRequest* request) {
  const RunStep& step = *options.evaluation;
  CHX_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(step));
  // What an epoch leaves out is none of its business, if it has a program for the rest.
  const bool drop_last = options.drop_last && !step.rest.has_value();
  CHX_ASSIGN_OR_RETURN(request->evaluation, CallsOf(step, rows, drop_last));
  const RecordedProgram* const rest = request->evaluation->rest;
  if (request->evaluation->program->num_slots() > 0 || (rest != nullptr && rest->num_slots() > 0)) {
    return ValueError("[runs] expects an evaluation without numbers that vary");
  }
  if (options.evaluate_every < 1 || options.evaluate_every > kMostSteps / per_epoch) {
    return ValueError("[runs] expects to evaluate every 1 epoch or more, got ",
                      options.evaluate_every);
  }
  request->evaluate_every =
      options.evaluate_at.empty() ? options.evaluate_every * per_epoch : kNever;
  request->equal_weights = options.evaluate_weights == RunOptions::Weights::kMinibatches;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Run> StartRun(const RunStep& step, const RunOptions& options) {
  RunRequest request;
  request.name = options.name;
  request.done = 0;
  request.shuffle = options.shuffle;
  request.time_limit = options.time_limit;
  request.snapshot_every = options.snapshot_every;
  request.snapshot_seconds = options.snapshot_seconds;
  CHX_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(step));
  const bool given = !options.rows.empty();
  CHX_ASSIGN_OR_RETURN(request.step,
                       given ? WholeCallsOf(step) : CallsOf(step, rows, options.drop_last));
  const int64_t per_epoch =
      std::max<int64_t>(rows / step.batch_size, 1) + (request.step.rest != nullptr ? 1 : 0);
  CHX_ASSIGN_OR_RETURN(request.steps,
                       given ? GivenSteps(step, options, rows) : StepsOf(options, per_epoch));
  request.log_every = options.log_every;
  if (options.log_every == 0) request.log_every = options.log_at.empty() ? per_epoch : kNever;
  if (options.evaluation.has_value()) {
    CHX_RETURN_IF_ERROR(AddEvaluation(options, per_epoch, &request));
  }
  for (const StopRule& rule : options.stop) {
    CHX_ASSIGN_OR_RETURN(const RunRule made, RuleOf(rule, request));
    request.rules.push_back(made);
  }
  Session* const session = request.step.program->session().get();
  CHX_ASSIGN_OR_RETURN(const ArrayPtr marks, MarksOf(options, request));
  request.marks = marks.get();
  CHX_ASSIGN_OR_RETURN(const ArrayPtr values, ValuesOf(step, request, per_epoch, options.schedule));
  request.values = values.get();
  ArrayPtr table;
  if (given) {
    CHX_ASSIGN_OR_RETURN(table, TableOf(options.rows, step.batch_size, session));
  }
  request.rows = table.get();
  CHX_RETURN_IF_ERROR(StartRun(session, request));
  return AttachRun(*session, options.name);
}

}  // namespace chx
