#include "server/runs/run_loop.h"

#include <algorithm>
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

// Of a minibatch.
command::Upload UploadRows(const DataArray& array, const std::string& data, int64_t rows,
                           DeviceId device, Handle result) {
  command::Upload upload;
  upload.result = result;
  upload.dtype = array.dtype;
  upload.device = device;
  upload.shape.assign(array.shape.begin(), array.shape.end());
  upload.shape[0] = rows;
  upload.data = data;
  return upload;
}

std::chrono::steady_clock::time_point After(std::chrono::steady_clock::time_point time,
                                            double seconds) {
  return time + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                    std::chrono::duration<double>(seconds));
}

}  // namespace

RunLoop::RunLoop(std::shared_ptr<Session> session, RunsOptions options)
    : session_(std::move(session)), options_(std::move(options)) {}

RunLoop::~RunLoop() {
  if (!holds_) return;
  session_->Inspect([this](SessionState& state) { GiveBack(&state); });
}

absl::StatusOr<std::unique_ptr<RunLoop>> RunLoop::Make(const std::shared_ptr<Session>& session,
                                                       RunSpec spec, RunsOptions options) {
  CHX_RETURN_IF_ERROR(CheckRunSpec(spec));
  std::unique_ptr<RunLoop> loop(new RunLoop(session, std::move(options)));
  absl::Status status;
  session->Inspect([&](SessionState& state) {
    ++state.live_runs;
    loop->holds_ = true;
    status = loop->Take(false, &spec, &state);
    if (!status.ok()) return;
    MemoryCharge charge;
    const absl::StatusOr<std::vector<double>> first = TakeFirst(spec, &state, &charge);
    status = first.status();
    if (!status.ok()) return;
    const int64_t per_epoch = loop->CountSteps(spec);
    loop->SetRun(std::make_shared<Run>(std::move(spec), session->account(), per_epoch));
    loop->run_->Note(RunEventKind::kStarted, {});
    loop->CountFirst(*first);
  });
  CHX_RETURN_IF_ERROR(status);
  return loop;
}

absl::StatusOr<std::unique_ptr<RunLoop>> RunLoop::Resume(const std::shared_ptr<Session>& session,
                                                         const absl::Status& may_read_files,
                                                         std::shared_ptr<Run> run,
                                                         RunsOptions options) {
  std::unique_ptr<RunLoop> loop(new RunLoop(session, std::move(options)));
  absl::Status status;
  session->Inspect([&](SessionState& state) {
    loop->holds_ = true;
    RunSpec spec = run->spec();
    // To be given back, if it cannot go on.
    const auto hold = [](const RunCalls& calls, Part* part) {
      part->whole.program = calls.program;
      part->rest.program = calls.rest;
      part->data.assign(calls.data.begin(), calls.data.end());
    };
    hold(spec.step, &loop->step_part_);
    if (spec.evaluation.has_value()) hold(*spec.evaluation, &loop->evaluation_part_);
    loop->values_ = StepTable(spec.values, 0, 0);
    loop->given_rows_ = StepTable(spec.rows, 0, 0);
    loop->marks_handle_ = spec.marks;
    // Its tenant may have had more than it has in this daemon.
    if (spec.reads_files()) status = may_read_files;
    if (status.ok()) status = loop->Take(true, &spec, &state);
  });
  CHX_RETURN_IF_ERROR(status);
  if (loop->CountSteps(run->spec()) != run->steps_per_epoch()) {
    return ValueError("[runs] expects epochs of ", run->steps_per_epoch(), " steps");
  }
  loop->SetRun(std::move(run));
  if (loop->position_->evaluates && loop->EvaluationRows() <= 0) {
    return ValueError("[runs] expects a position within the evaluation");
  }
  return loop;
}

void RunLoop::SetRun(std::shared_ptr<Run> run) {
  run_ = std::move(run);
  spec_ = &run_->spec();
  position_ = &run_->position();
  step_part_.calls = &spec_->step;
  if (spec_->evaluation.has_value()) evaluation_part_.calls = &*spec_->evaluation;
}

int64_t RunLoop::CountSteps(const RunSpec& spec) const {
  return std::max<int64_t>(step_part_.rows / spec.step.batch_size, 1) +
         (spec.step.rest != 0 ? 1 : 0);
}

void RunLoop::Step() {
  const int64_t step = position_->step;
  const absl::StatusOr<absl::Span<const int64_t>> values =
      values_.Row(step - spec_->done, session_.get());
  const absl::StatusOr<absl::Span<const int64_t>> rows = RowsOf(step);
  if (!values.ok() || !rows.ok()) {
    const absl::Status& status = values.ok() ? rows.status() : values.status();
    session_->Inspect([&](SessionState& /*state*/) { EndBy(WhyFailed(status)); });
    return;
  }
  Call(&step_part_, *rows, *values, &RunLoop::CountStep);
}

void RunLoop::SnapshotIfDue(bool stepped) {
  if (!spec_->asks_for_snapshots() || options_.snapshot == nullptr) return;
  bool due = stepped && spec_->snapshot_every > 0 && position_->step % spec_->snapshot_every == 0;
  if (spec_->snapshot_seconds > 0) {
    const auto now = std::chrono::steady_clock::now();
    due = due || now >= snapshot_due_;
    if (due) snapshot_due_ = After(now, spec_->snapshot_seconds);
  }
  if (due) options_.snapshot(session_.get());
}

void RunLoop::Evaluate() {
  rows_.resize(static_cast<size_t>(EvaluationRows()));
  std::iota(rows_.begin(), rows_.end(), position_->evaluation_row);
  Call(&evaluation_part_, rows_, {}, &RunLoop::CountEvaluation);
}

// The client has gone on whatever came of a step: a rule ends the run behind the last of them.
void RunLoop::CountFirst(const std::vector<double>& metrics) {
  const size_t count = spec_->step.metrics.size();
  position_->step = 0;
  while (position_->step < spec_->done && position_->reason.empty()) {
    const size_t begin = static_cast<size_t>(position_->step) * count;
    CountStep(absl::MakeConstSpan(metrics).subspan(begin, count));
  }
  position_->step = spec_->done;
  run_->ShowStep();
}

int64_t RunLoop::Marks(int64_t step) const {
  size_t begin = 0;
  size_t end = marks_.size() / 2;
  while (begin < end) {
    const size_t middle = (begin + end) / 2;
    if (marks_[2 * middle] < step) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return 2 * begin < marks_.size() && marks_[2 * begin] == step ? marks_[2 * begin + 1] : 0;
}

void RunLoop::CountStep(absl::Span<const double> metrics) {
  const int64_t step = ++position_->step;
  run_->ShowStep();
  position_->log.Add(metrics);
  const bool last = step == spec_->steps;
  const int64_t marks = Marks(step);
  std::string broken = position_->Judge(*spec_, false, metrics);
  if (!broken.empty() || last || (marks & RunMarks::kLog) != 0 || step % spec_->log_every == 0) {
    run_->Note(RunEventKind::kLog, position_->log.Take());
  }
  if (!broken.empty()) return EndBy({"rule", std::move(broken)});
  if (step < spec_->done) return;  // the client has gone on
  position_->evaluates =
      spec_->evaluation.has_value() &&
      (last || (marks & RunMarks::kEvaluate) != 0 || step % spec_->evaluate_every == 0);
  if (!position_->evaluates) PauseIfMarked();
}

int64_t RunLoop::EvaluationRows() const {
  const int64_t size = spec_->evaluation->batch_size;
  const int64_t left = evaluation_part_.rows - position_->evaluation_row;
  return left < size && spec_->evaluation->rest == 0 ? 0 : std::min(size, left);
}

void RunLoop::CountEvaluation(absl::Span<const double> metrics) {
  const int64_t rows = EvaluationRows();
  position_->evaluation.Add(metrics, spec_->weighs_rows() ? rows : 1);
  position_->evaluation_row += rows;
  if (EvaluationRows() <= 0) EndEvaluation();
}

void RunLoop::EndEvaluation() {
  const std::vector<double> means = position_->evaluation.Take();
  position_->evaluates = false;
  position_->evaluation_row = 0;
  run_->Note(RunEventKind::kEvaluation, means);
  std::string broken = position_->Judge(*spec_, true, means);
  if (!broken.empty()) return EndBy({"rule", std::move(broken)});
  PauseIfMarked();
}

void RunLoop::PauseIfMarked() {
  const int64_t step = position_->step;
  if (step < spec_->steps && (Marks(step) & RunMarks::kPause) != 0) run_->Ask(RunOrder::kPause);
}

void RunLoop::EndBy(Ending ending) {
  position_->reason = std::move(ending.reason);
  position_->text = std::move(ending.text);
}

bool RunLoop::Ended(Ending* ending) const {
  if (session_->stop().session_ended()) {
    *ending = {"session", "its session has ended"};
  } else if (run_->order() == RunOrder::kEndWithDaemon) {
    *ending = {"daemon", "the daemon has ended"};
  } else if (run_->order() == RunOrder::kStop) {
    *ending = {"stopped", ""};
  } else if (spec_->time_limit > 0 && run_->seconds() >= spec_->time_limit) {
    *ending = {"time limit", absl::StrCat("it has run for ", spec_->time_limit, " s")};
  } else {
    return false;
  }
  return true;
}

RunLoop::Ending RunLoop::WhyFailed(const absl::Status& status) const {
  Ending ending;
  if (KindOf(status) == ErrorKind::kCancelled && Ended(&ending)) return ending;
  return {"error",
          absl::StrCat(position_->evaluates ? "evaluation after step " : "step ",
                       position_->step + (position_->evaluates ? 0 : 1), ": ", status.message())};
}

bool RunLoop::MayGoOn(Ending* ending) {
  if (run_->suspended() || Ended(ending)) return false;
  if (run_->order() == RunOrder::kPause) {
    if (!std::exchange(paused_, true)) run_->Note(RunEventKind::kPaused, {});
    session_->runs().active.fetch_sub(1);
    bool ended = false;
    while (run_->order() == RunOrder::kPause && !(ended = run_->suspended() || Ended(ending))) {
      run_->AwaitOrder(RunOrder::kPause, kLook);
    }
    session_->runs().active.fetch_add(1);
    if (ended || Ended(ending)) return false;
  }
  if (std::exchange(paused_, false)) run_->Note(RunEventKind::kResumed, {});
  return true;
}

RunLoop::Ending RunLoop::RunSteps() {
  snapshot_due_ = After(std::chrono::steady_clock::now(), spec_->snapshot_seconds);
  Ending ending = {"done", ""};
  while (position_->reason.empty()) {
    if (position_->step == spec_->steps && !position_->evaluates) return ending;
    if (!MayGoOn(&ending)) return ending;
    const int64_t step = position_->step;
    position_->evaluates ? Evaluate() : Step();
    SnapshotIfDue(position_->step > step);
  }
  return {position_->reason, position_->text};
}

void RunLoop::Work() {
  paused_ = run_->paused();
  Ending ending = RunSteps();
  if (run_->suspended()) {
    if (!session_->stop().session_ended()) {
      Leave();
      session_->runs().active.fetch_sub(1);
      return;
    }
    ending = {"session", "its session has ended"};
  }
  // No snapshot has it without its arrays.
  session_->Inspect([&](SessionState& state) {
    GiveBack(&state);
    session_->runs().active.fetch_sub(1);
    run_->Note(RunEventKind::kEnded, {}, ending.reason, ending.text);
  });
}

absl::StatusOr<absl::Span<const int64_t>> RunLoop::RowsOf(int64_t step) {
  if (spec_->rows != 0) return given_rows_.Row(step - spec_->done, session_.get());
  int64_t size = spec_->step.batch_size;
  const int64_t epoch = step / run_->steps_per_epoch();
  const int64_t begin = step % run_->steps_per_epoch() * size;
  size = std::min(size, step_part_.rows - begin);
  if (!spec_->shuffle.has_value()) {
    rows_.resize(static_cast<size_t>(size));
    std::iota(rows_.begin(), rows_.end(), begin);
    return absl::MakeConstSpan(rows_);
  }
  if (order_epoch_ != epoch) {
    order_ = {};  // its memory is needed
    order_ = EpochOrder(*spec_->shuffle, epoch, step_part_.rows);
    order_epoch_ = epoch;
  }
  return absl::MakeConstSpan(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
}

void RunLoop::Call(Part* called, absl::Span<const int64_t> rows, absl::Span<const int64_t> values,
                   Count count) {
  const Part& part = *called;
  const absl::Status read = ReadFiles(called, rows);
  if (!read.ok()) {
    session_->Inspect([&](SessionState& /*state*/) { EndBy(WhyFailed(read)); });
    return;
  }
  static const OpDef* const take = OpRegistry::Global().Find("take");
  const bool is_whole = static_cast<int64_t>(rows.size()) == part.calls->batch_size;
  const Callee& callee = is_whole ? part.whole : part.rest;
  window_.clear();
  command::Upload index;
  index.result = part.index;
  index.dtype = Dtype::kInt64;
  index.device = part.device;
  index.shape = {static_cast<int64_t>(rows.size())};
  index.data = {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(int64_t)};
  window_.emplace_back(std::move(index));
  auto file = part.files.begin();
  for (size_t i = 0; i < part.data.size(); ++i) {
    if (part.data[i] == 0) {
      window_.emplace_back(UploadRows(file->array, file->rows, static_cast<int64_t>(rows.size()),
                                      part.device, part.batch[i]));
      ++file;
      continue;
    }
    command::ApplyOp gather;
    gather.op = static_cast<uint16_t>(take->id + 1);
    gather.inputs = {HandleOperand(part.data[i]), HandleOperand(part.index)};
    gather.results = {part.batch[i]};
    gather.attrs = {AttrValue(0), AttrValue()};
    window_.emplace_back(std::move(gather));
  }
  command::RunProgram run;
  run.program = callee.program;
  run.values.assign(values.begin(), values.begin() + static_cast<ptrdiff_t>(callee.slots));
  run.arguments = part.batch;
  run.results.assign(callee.outputs, 0);
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
  const auto then = [&] {
    metrics_.clear();
    const absl::Status status = ReadValues(part, &metrics_);
    status.ok() ? (this->*count)(metrics_) : EndBy(WhyFailed(status));
  };
  for (auto look = kRecordingLook; !session_->ExecuteForRun(window_, &output_, then);
       look = std::min(2 * look, kLongestLook)) {
    Ending ending;
    if (run_->suspended() || Ended(&ending)) return;  // seen again before the next call
    std::this_thread::sleep_for(look);
  }
}

}  // namespace chx::server
