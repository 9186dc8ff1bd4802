// RunLoop's part about what it has of its session: programs and data.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/runs/run_arrays.h"
#include "server/runs/run_loop.h"

namespace chx::server {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 40;
constexpr int64_t kMaxShuffled = int64_t{1} << 26;    // nothing stops the making of an order
constexpr int64_t kOrderBytes = 3 * sizeof(int64_t);  // of a row, while an order is made

}  // namespace

absl::Status RunLoop::Take(bool own, RunSpec* spec, SessionState* state) {
  if (!own && state->programs.recording() != nullptr) {
    return ValueError("[runs] cannot start while a program is recorded");
  }
  CHX_RETURN_IF_ERROR(TakePart(own, spec->rows != 0, &spec->step, state, &step_part_));
  if (spec->evaluation.has_value()) {
    CHX_RETURN_IF_ERROR(TakePart(own, false, &*spec->evaluation, state, &evaluation_part_));
    if (evaluation_part_.whole.slots + evaluation_part_.rest.slots != 0) {
      return ValueError("[runs] expects an evaluation without numbers that vary");
    }
  }
  CHX_RETURN_IF_ERROR(TakeValues(own, spec, state));
  CHX_RETURN_IF_ERROR(TakeRows(own, spec, state));
  CHX_RETURN_IF_ERROR(TakeMarks(own, spec, state));
  const int64_t largest = std::max(spec->rows == 0 ? spec->step.batch_size : 0,
                                   spec->evaluation.has_value() ? spec->evaluation->batch_size : 0);
  int64_t bytes = kRunBytes + largest * static_cast<int64_t>(sizeof(int64_t)) +
                  StepTable::BlockBytes(NumSlots()) +
                  StepTable::BlockBytes(spec->rows == 0 ? 0 : spec->step.batch_size);
  if (spec->shuffle.has_value()) {
    if (step_part_.rows > kMaxShuffled) {
      return ValueError("[runs] expects at most ", kMaxShuffled, " rows to shuffle, got ",
                        step_part_.rows);
    }
    bytes += step_part_.rows * kOrderBytes;
  }
  CHX_ASSIGN_OR_RETURN(const int64_t step_files, FileBytes(step_part_, spec->step.batch_size));
  bytes += step_files;
  if (spec->evaluation.has_value()) {
    CHX_ASSIGN_OR_RETURN(const int64_t files,
                         FileBytes(evaluation_part_, spec->evaluation->batch_size));
    bytes += files;
  }
  CHX_ASSIGN_OR_RETURN(charge_, MemoryCharge::Of(state->account(), bytes));
  return absl::OkStatus();
}

absl::Status RunLoop::TakeProgram(bool own, uint64_t* number, const RunCalls& calls,
                                  SessionState* state, Callee* callee) {
  std::shared_ptr<Program> program = state->programs.Share(*number);
  if (program == nullptr || IsOfRun(*number) != own) {
    return ValueError("[runs] expects a program of this session, got ", *number);
  }
  // A daemon that was started anew has not kept it.
  if (own && program->published != nullptr) {
    CHX_RETURN_IF_ERROR(program->published->Check("runs"));
  }
  if (program->arguments.size() != calls.data.size()) {
    return TypeError("[runs] expects ", program->arguments.size(), " arrays of data, got ",
                     calls.data.size());
  }
  CHX_RETURN_IF_ERROR(state->executor.CheckFits(program->run_bytes));
  callee->slots = program->slots.size();
  callee->outputs = program->outputs.size();
  for (size_t i = 0; i < calls.metrics.size(); ++i) {
    if (calls.metrics[i].output >= callee->outputs) {
      return ValueError("[runs] expects metrics among ", callee->outputs, " outputs, got ",
                        calls.metrics[i].output);
    }
    for (size_t j = 0; j < i; ++j) {
      if (calls.metrics[j].output == calls.metrics[i].output) {
        return ValueError("[runs] expects metrics of different outputs");
      }
    }
  }
  if (own) return absl::OkStatus();
  callee->program = state->next_run_handle++;
  state->programs.Add(callee->program, std::move(program));
  *number = callee->program;
  return absl::OkStatus();
}

absl::Status RunLoop::TakePart(bool own, bool any_rows, RunCalls* taken, SessionState* state,
                               Part* part) {
  RunCalls& calls = *taken;
  CHX_RETURN_IF_ERROR(TakeProgram(own, &calls.program, calls, state, &part->whole));
  if (calls.rest != 0) {
    CHX_RETURN_IF_ERROR(TakeProgram(own, &calls.rest, calls, state, &part->rest));
  }
  std::vector<Array> arrays;
  std::vector<ArraySpec> specs;
  for (Handle handle : calls.data) {
    if (handle == 0) {
      CHX_ASSIGN_OR_RETURN(ArraySpec spec, TakeFile(own, taken, part));
      specs.push_back(std::move(spec));
      continue;
    }
    CHX_ASSIGN_OR_RETURN(Array array, ArrayOf(handle, state));
    specs.push_back(array.spec);
    arrays.push_back(std::move(array));
  }
  for (ArraySpec& spec : specs) {
    if (spec.shape.size() == 0) {
      return DimensionError("[runs] expects data with a first axis, got ", spec.ToString());
    }
  }
  // Arrays without elements may have any number of rows.
  if (specs[0].shape[0] > kMaxRows) {
    return DimensionError("[runs] expects data of at most ", kMaxRows, " rows, got ",
                          specs[0].ToString());
  }
  part->rows = specs[0].shape[0];
  part->device = arrays.empty() ? calls.device : arrays[0].spec.device;
  for (const ArraySpec& spec : specs) {
    if (spec.shape[0] != part->rows) {
      return DimensionError("[runs] expects data of as many rows each, got ", specs[0].ToString(),
                            " and ", spec.ToString());
    }
  }
  for (const Array& array : arrays) {
    if (array.spec.device != part->device) {
      return DimensionError("[runs] expects data on one device, got ", arrays[0].spec.ToString(),
                            " and ", array.spec.ToString());
    }
  }
  const int64_t most = any_rows ? kMaxRows : part->rows;
  if (calls.batch_size > most) {
    return DimensionError("[runs] expects minibatches of at most ", most, " rows, got ",
                          calls.batch_size);
  }
  if (calls.rest != 0 && part->rows % calls.batch_size == 0) {
    return ValueError("[runs] expects rows that are left over of ", part->rows, " for ",
                      calls.batch_size, " each");
  }
  const auto next = [state] { return state->next_run_handle++; };
  for (size_t i = 0; i < calls.data.size(); ++i) part->batch.push_back(next());
  for (size_t i = 0; i < calls.metrics.size(); ++i) part->values.push_back(next());
  part->index = next();
  if (own) return absl::OkStatus();
  auto array = arrays.begin();
  for (Handle& handle : calls.data) {
    if (handle != 0) {
      CHX_ASSIGN_OR_RETURN(handle, Keep(std::move(*array++), state));
    }
    part->data.push_back(handle);
  }
  return absl::OkStatus();
}

namespace {

// With the operator, and where the client has called it.
absl::Status Told(RootError* error) {
  error->read = true;  // by the run's last event, and by nobody else
  const absl::Status& status = error->status;
  std::string text(status.message());
  if (!error->op.empty() && text.rfind('[', 0) != 0)
    text = absl::StrCat("[", error->op, "] ", text);
  if (!error->location.empty()) absl::StrAppend(&text, ", at ", error->location);
  return MakeError(KindOf(status), text);
}

}  // namespace

absl::Status RunLoop::ReadValues(const Part& part, std::vector<double>* metrics) const {
  if (!output_.errors.empty()) {
    for (const SessionOutput::Error& error : output_.errors) error.error->read = true;
    return Told(output_.errors[0].error.get());
  }
  if (output_.values.size() != part.values.size()) {
    return MakeError(ErrorKind::kCancelled, "[runs] the session has ended");
  }
  for (const SessionOutput::Value& value : output_.values) {
    if (value.error != nullptr) return Told(value.error.get());
    CHX_ASSIGN_OR_RETURN(const double number, MetricOf(value.dtype, value.shape, value.data));
    metrics->push_back(number);
  }
  return absl::OkStatus();
}

void RunLoop::GiveBack(SessionState* state) {
  holds_ = false;
  for (const Part* part : {&step_part_, &evaluation_part_}) {
    for (Handle handle : part->data) {
      if (handle != 0) state->handles.Release(handle);
    }
    for (const Callee* callee : {&part->whole, &part->rest}) {
      if (callee->program == 0) continue;
      std::shared_ptr<Program> program = state->programs.Take(callee->program);
      if (program != nullptr) DropProgram(std::move(program), state);
    }
  }
  for (Handle table : {values_.handle(), given_rows_.handle(), marks_handle_}) {
    if (table != 0) state->handles.Release(table);
  }
  --state->live_runs;
  values_ = {};
  given_rows_ = {};
  marks_ = {};
  order_ = {};
  charge_ = MemoryCharge();
  marks_charge_ = MemoryCharge();
}

}  // namespace chx::server
