// RunLoop's part about what the client has computed for it: the values of all steps, their rows,
// marks, and the metrics of the steps that it has made itself.
#include <algorithm>
#include <string>
#include <utility>

#include "ops/error.h"
#include "server/runs/run_arrays.h"
#include "server/runs/run_loop.h"

namespace chx::server {
namespace {

constexpr int64_t kRowsAtOnce = 4096;

// As many of an array's numbers as there is room for.
absl::Status CopyNumbers(const Array& array, int64_t begin, SessionState* state,
                         std::vector<int64_t>* numbers) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(int64_t));
  if (numbers->empty()) return absl::OkStatus();
  return state->executor.CopyOut(array, begin * kBytes,
                                 static_cast<int64_t>(numbers->size()) * kBytes,
                                 reinterpret_cast<char*>(numbers->data()));
}

}  // namespace

absl::StatusOr<Array> RunLoop::TakeTable(bool own, Handle* handle, const char* what,
                                         const Shape& shape, SessionState* state) {
  CHX_ASSIGN_OR_RETURN(Array array, ArrayOf(*handle, state));
  if (array.spec.dtype != Dtype::kInt64 || array.spec.shape != shape) {
    return ValueError("[runs] expects ", what, " of int64", shape.ToString(), ", got ",
                      array.spec.ToString());
  }
  if (own) return array;
  // Read by blocks, which a view would not have in one piece.
  CHX_ASSIGN_OR_RETURN(array, state->executor.Contiguous(array));
  CHX_ASSIGN_OR_RETURN(*handle, Keep(array, state));
  return array;
}

absl::Status RunLoop::TakeValues(bool own, RunSpec* spec, SessionState* state) {
  const int64_t steps = spec->steps - spec->done;
  if (NumSlots() == 0 || steps == 0) {
    if (spec->values == 0) return absl::OkStatus();
    return ValueError("[runs] expects no values for a program without numbers that vary");
  }
  const absl::Status taken =
      TakeTable(own, &spec->values, "values", {steps, NumSlots()}, state).status();
  if (taken.ok()) values_ = StepTable(spec->values, steps, NumSlots());
  return taken;
}

absl::Status RunLoop::TakeRows(bool own, RunSpec* spec, SessionState* state) {
  if (spec->rows == 0) return absl::OkStatus();
  const int64_t steps = spec->steps - spec->done;
  const int64_t size = spec->step.batch_size;
  CHX_ASSIGN_OR_RETURN(const Array array,
                       TakeTable(own, &spec->rows, "rows", {steps, size}, state));
  given_rows_ = StepTable(spec->rows, steps, size);
  std::vector<int64_t> rows;
  for (int64_t begin = 0; begin < steps * size; begin += kRowsAtOnce) {
    rows.resize(static_cast<size_t>(std::min(kRowsAtOnce, steps * size - begin)));
    CHX_RETURN_IF_ERROR(CopyNumbers(array, begin, state, &rows));
    for (int64_t row : rows) {
      if (row < 0 || row >= step_part_.rows) {
        return ValueError("[runs] expects rows of 0 to ", step_part_.rows - 1, ", got ", row);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RunLoop::TakeMarks(bool own, RunSpec* spec, SessionState* state) {
  if (spec->marks == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const Array asked, ArrayOf(spec->marks, state));
  const int64_t count = asked.spec.shape.size() == 0 ? 0 : asked.spec.shape[0];
  CHX_ASSIGN_OR_RETURN(const Array array, TakeTable(own, &spec->marks, "marks", {count, 2}, state));
  marks_handle_ = spec->marks;
  CHX_ASSIGN_OR_RETURN(marks_charge_, MemoryCharge::Of(state->account(), array.spec.nbytes()));
  marks_.resize(static_cast<size_t>(2 * count));
  CHX_RETURN_IF_ERROR(CopyNumbers(array, 0, state, &marks_));
  int64_t step = 0;
  for (size_t i = 0; i < marks_.size(); i += 2) {
    if (marks_[i] <= step || marks_[i] > spec->steps) {
      return ValueError("[runs] expects marks of steps 1 to ", spec->steps,
                        ", in ascending order, got ", marks_[i]);
    }
    if ((marks_[i + 1] & ~RunMarks::kAll) != 0) {
      return ValueError("[runs] expects marks of 0 to ", RunMarks::kAll, ", got ", marks_[i + 1]);
    }
    step = marks_[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> RunLoop::TakeFirst(const RunSpec& spec, SessionState* state,
                                                       MemoryCharge* charge) {
  const size_t count = spec.first.size();
  const auto steps = static_cast<size_t>(spec.done);
  const int64_t bytes = spec.done * static_cast<int64_t>(count * sizeof(double));
  CHX_ASSIGN_OR_RETURN(*charge, MemoryCharge::Of(state->account(), bytes));
  CHX_ASSIGN_OR_RETURN(
      const MemoryCharge copy,
      MemoryCharge::Of(state->account(), spec.done * static_cast<int64_t>(sizeof(double))));
  std::vector<double> metrics(steps * count);
  for (size_t i = 0; i < count; ++i) {
    CHX_ASSIGN_OR_RETURN(const Array array, ArrayOf(spec.first[i], state));
    const Shape& shape = array.spec.shape;
    if (shape != Shape({spec.done}) && !(shape.size() == 0 && steps == 1)) {
      return ValueError("[runs] expects metrics of ", steps, " steps, got ", array.spec.ToString());
    }
    CHX_ASSIGN_OR_RETURN(const std::string data, state->executor.CopyOut(array));
    const auto size = static_cast<size_t>(ItemSize(array.spec.dtype));
    for (size_t step = 0; step < steps; ++step) {
      CHX_ASSIGN_OR_RETURN(metrics[step * count + i],
                           ElementOf(array.spec.dtype, {data.data() + step * size, size}));
    }
  }
  return metrics;
}

}  // namespace chx::server
