// RunLoop's part about what it has of its session: programs, data, and the values of metrics.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "ops/error.h"
#include "server/kernels/types.h"
#include "server/runs/run_loop.h"

namespace chx::server {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 40;
constexpr int64_t kMaxShuffled = int64_t{1} << 26;    // nothing stops the making of an order
constexpr int64_t kOrderBytes = 3 * sizeof(int64_t);  // of a row, while an order is made

template <typename T>
double ValueOf(absl::string_view data) {
  T value;
  std::memcpy(&value, data.data(), sizeof(value));
  return static_cast<double>(kernels::Load(value));
}

// A number as the elements of an array without dimensions say it.
absl::StatusOr<double> NumberOf(Dtype dtype, const Shape& shape, absl::string_view data) {
  if (shape.size() != 0 || static_cast<int64_t>(data.size()) != ItemSize(dtype)) {
    return ValueError("[runs] expects metrics without dimensions, got one with ", shape.size());
  }
  switch (dtype) {
    case Dtype::kBool:
      return data[0] != 0 ? 1.0 : 0.0;
    case Dtype::kInt8:
      return ValueOf<int8_t>(data);
    case Dtype::kInt16:
      return ValueOf<int16_t>(data);
    case Dtype::kInt32:
      return ValueOf<int32_t>(data);
    case Dtype::kInt64:
      return ValueOf<int64_t>(data);
    case Dtype::kUint8:
      return ValueOf<uint8_t>(data);
    case Dtype::kFloat16:
      return ValueOf<kernels::Half>(data);
    case Dtype::kFloat32:
      return ValueOf<float>(data);
    case Dtype::kFloat64:
      return ValueOf<double>(data);
  }
  return ValueError("[runs] expects metrics of a known dtype");
}

absl::StatusOr<Array> ArrayOf(Handle handle, SessionState* state) {
  RootErrorPtr inherited;
  CHX_ASSIGN_OR_RETURN(HandleTable::Entry * entry, state->handles.Use(handle, &inherited));
  if (inherited != nullptr) return inherited->status;
  return entry->variable.array;
}

}  // namespace

absl::Status RunLoop::Take(SessionState* state) {
  if (!state->op_ids.empty()) {
    return MakeError(ErrorKind::kNotImplemented,
                     "[runs] expects a client that has connected to this daemon, not to one before "
                     "it of another version: connect again");
  }
  if (state->programs.recording() != nullptr) {
    return ValueError("[runs] cannot start while a program is recorded");
  }
  CHX_RETURN_IF_ERROR(TakePart(spec_->step, state, &step_part_));
  if (spec_->evaluation.has_value()) {
    CHX_RETURN_IF_ERROR(TakePart(*spec_->evaluation, state, &evaluation_part_));
    if (evaluation_part_.slots != 0) {
      return ValueError("[runs] expects an evaluation without numbers that vary");
    }
  }
  const int64_t largest = std::max(
      spec_->step.batch_size, spec_->evaluation.has_value() ? spec_->evaluation->batch_size : 0);
  int64_t bytes = kRunBytes + largest * static_cast<int64_t>(sizeof(int64_t));
  if (spec_->shuffle.has_value()) {
    if (step_part_.rows > kMaxShuffled) {
      return ValueError("[runs] expects at most ", kMaxShuffled, " rows to shuffle, got ",
                        step_part_.rows);
    }
    bytes += step_part_.rows * kOrderBytes;
  }
  CHX_ASSIGN_OR_RETURN(charge_, MemoryCharge::Of(state->account(), bytes));
  CHX_RETURN_IF_ERROR(TakeValues(state));
  return TakeFirst(state);
}

absl::Status RunLoop::TakePart(const RunCalls& calls, SessionState* state, Part* part) {
  std::shared_ptr<Program> program = state->programs.Share(calls.program);
  if (program == nullptr || IsOfRun(calls.program)) {
    return ValueError("[runs] expects a program of this session, got ", calls.program);
  }
  if (program->arguments.size() != calls.data.size()) {
    return TypeError("[runs] expects ", program->arguments.size(), " arrays of data, got ",
                     calls.data.size());
  }
  part->calls = &calls;
  part->slots = program->slots.size();
  part->outputs = program->outputs.size();
  for (size_t i = 0; i < calls.metrics.size(); ++i) {
    if (calls.metrics[i].output >= part->outputs) {
      return ValueError("[runs] expects metrics among ", part->outputs, " outputs, got ",
                        calls.metrics[i].output);
    }
    for (size_t j = 0; j < i; ++j) {
      if (calls.metrics[j].output == calls.metrics[i].output) {
        return ValueError("[runs] expects metrics of different outputs");
      }
    }
  }
  std::vector<Array> arrays;
  for (Handle handle : calls.data) {
    CHX_ASSIGN_OR_RETURN(Array array, ArrayOf(handle, state));
    if (array.spec.shape.size() == 0) {
      return DimensionError("[runs] expects data with a first axis, got ", array.spec.ToString());
    }
    arrays.push_back(std::move(array));
  }
  // Arrays without elements may have any number of rows.
  if (arrays[0].spec.shape[0] > kMaxRows) {
    return DimensionError("[runs] expects data of at most ", kMaxRows, " rows, got ",
                          arrays[0].spec.ToString());
  }
  part->rows = arrays[0].spec.shape[0];
  part->device = arrays[0].spec.device;
  for (const Array& array : arrays) {
    if (array.spec.shape[0] != part->rows || array.spec.device != part->device) {
      return DimensionError("[runs] expects data of as many rows each, on one device, got ",
                            arrays[0].spec.ToString(), " and ", array.spec.ToString());
    }
  }
  if (calls.batch_size > part->rows) {
    return DimensionError("[runs] expects minibatches of at most ", part->rows, " rows, got ",
                          calls.batch_size);
  }
  const auto next = [state] { return state->next_run_handle++; };
  for (size_t i = 0; i < arrays.size(); ++i) part->batch.push_back(next());
  for (size_t i = 0; i < calls.metrics.size(); ++i) part->values.push_back(next());
  part->index = next();
  for (Array& array : arrays) {
    const Handle own = next();
    state->handles.Reserve(1);
    CHX_RETURN_IF_ERROR(state->handles.CheckNew({&own, 1}));
    Variable variable;
    variable.array = std::move(array);
    state->handles.Bind(own, std::move(variable));
    part->data.push_back(own);
  }
  part->program = next();
  state->programs.Add(part->program, std::move(program));
  return absl::OkStatus();
}

absl::Status RunLoop::TakeValues(SessionState* state) {
  const int64_t steps = spec_->steps - spec_->done;
  const auto slots = static_cast<int64_t>(step_part_.slots);
  if (slots == 0 || steps == 0) {
    if (spec_->values == 0) return absl::OkStatus();
    return ValueError("[runs] expects no values for a program without numbers that vary");
  }
  CHX_ASSIGN_OR_RETURN(const Array array, ArrayOf(spec_->values, state));
  if (array.spec.dtype != Dtype::kInt64 || array.spec.shape != Shape({steps, slots})) {
    return ValueError("[runs] expects values of int64(", steps, ", ", slots, "), got ",
                      array.spec.ToString());
  }
  // And the copy from which they are taken.
  CHX_ASSIGN_OR_RETURN(values_charge_, MemoryCharge::Of(state->account(), 2 * array.spec.nbytes()));
  CHX_ASSIGN_OR_RETURN(const std::string data, state->executor.CopyOut(array));
  values_.resize(data.size() / sizeof(int64_t));
  std::memcpy(values_.data(), data.data(), data.size());
  return absl::OkStatus();
}

absl::Status RunLoop::TakeFirst(SessionState* state) {
  for (Handle handle : spec_->first) {
    CHX_ASSIGN_OR_RETURN(const Array array, ArrayOf(handle, state));
    if (array.spec.shape.size() != 0) {
      return ValueError("[runs] expects metrics without dimensions, got ", array.spec.ToString());
    }
    CHX_ASSIGN_OR_RETURN(const std::string data, state->executor.CopyOut(array));
    CHX_ASSIGN_OR_RETURN(const double value, NumberOf(array.spec.dtype, array.spec.shape, data));
    first_.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status RunLoop::ReadValues(const Part& part, std::vector<double>* metrics) const {
  if (!output_.errors.empty()) {
    // Told by the run's last event, and to nobody else.
    session_->Inspect([this](SessionState& /*state*/) {
      for (const SessionOutput::Error& error : output_.errors) error.error->read = true;
    });
    return output_.errors[0].error->status;
  }
  if (output_.values.size() != part.values.size()) {
    return MakeError(ErrorKind::kCancelled, "[runs] the session has ended");
  }
  for (const SessionOutput::Value& value : output_.values) {
    if (value.error != nullptr) {
      session_->Inspect([&](SessionState& /*state*/) { value.error->read = true; });
      return value.error->status;
    }
    CHX_ASSIGN_OR_RETURN(const double number, NumberOf(value.dtype, value.shape, value.data));
    metrics->push_back(number);
  }
  return absl::OkStatus();
}

void RunLoop::GiveBack(SessionState* state) {
  for (const Part* part : {&step_part_, &evaluation_part_}) {
    for (Handle handle : part->data) state->handles.Release(handle);
    if (part->program == 0) continue;
    std::shared_ptr<Program> program = state->programs.Take(part->program);
    if (program != nullptr) DropProgram(std::move(program), state);
  }
  --state->live_runs;
}

void RunLoop::GiveBackAll() {
  if (!std::exchange(holds_, false)) return;
  session_->Inspect([this](SessionState& state) { GiveBack(&state); });
  values_ = {};
  order_ = {};
  charge_ = MemoryCharge();
  values_charge_ = MemoryCharge();
}

}  // namespace chx::server
