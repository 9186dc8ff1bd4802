#include "ops/defs/sequences_layer.h"

#include <algorithm>

#include "ops/basic_index.h"
#include "ops/defs/common/expressions.h"

namespace chx {
namespace sequences {
namespace {

// The step that is i-th to be computed.
int StepAt(const RnnNetwork& network, bool backwards, int i) {
  return backwards ? network.num_steps() - 1 - i : i;
}

Value RowsOfStep(const RnnNetwork& network, Value packed, int step) {
  return Rows(packed, network.offsets[step], network.offsets[step + 1]);
}

// Blocks of `hidden` columns.
std::vector<Value> Gates(Value x, int gates) {
  if (gates == 1) return {x};
  const Value first = x.context()->Apply("split", {x}, {{"sections", gates}, {"axis", 1}});
  std::vector<Value> blocks;
  blocks.reserve(gates);
  for (int i = 0; i < gates; ++i) blocks.emplace_back(x.context(), first.id() + i);
  return blocks;
}

// A state (batch, hidden) from step to step. Forward, the sequences that end leave it as they are;
// backwards, those that begin join it with what the state was at first.
class State {
 public:
  State(Value initial, bool backwards) : initial_(initial), rows_(backwards ? 0 : Size()) {
    if (!backwards) now_ = initial;
  }
  // Of the sequences that are in a step.
  Value Before(int64_t rows) {
    if (rows < rows_) {
      ended_.push_back(Rows(now_, rows, rows_));
      now_ = Rows(now_, 0, rows);
    } else if (rows > rows_) {
      const Value begun = Rows(initial_, rows_, rows);
      now_ = now_.absent() ? begun : Join({now_, begun}, 0);
    }
    rows_ = rows;
    return now_;
  }
  void Set(Value now) { now_ = now; }
  Value Finish() {
    Before(std::max(rows_, ended_.empty() ? Size() : 0));
    std::vector<Value> parts = {now_};
    parts.insert(parts.end(), ended_.rbegin(), ended_.rend());
    return Join(parts, 0);
  }

 private:
  int64_t Size() const { return initial_.shape()[0]; }

  const Value initial_;
  int64_t rows_;
  Value now_;
  std::vector<Value> ended_;  // the last rows first
};

// The gradient of a State, from the last step that was computed to the first.
class StateGrad {
 public:
  // `rows`: of that last step.
  StateGrad(Value final, int64_t rows) : final_(final), now_(Rows(final, 0, rows)) {}
  Value now() const { return now_; }
  // now: the gradient of what step i started from, `rows` rows; the step computed before it, or the
  // initial state of a part that goes forward, has `before`.
  void Set(Value now, int64_t rows, int64_t before) {
    now_ = now;
    if (before > rows) {
      now_ = Join({now, Rows(final_, rows, before)}, 0);
    } else if (before < rows) {
      begun_.push_back(Rows(now, before, rows));
      now_ = before == 0 ? Value() : Rows(now, 0, before);
    }
  }
  // Of the initial state; `last`: the rows of the last step that was computed.
  Value Finish(bool backwards, int64_t last) {
    if (!backwards) return now_;
    std::vector<Value> parts(begun_.rbegin(), begun_.rend());
    const int64_t all = final_.shape()[0];
    if (last < all) parts.push_back(Rows(final_, last, all));
    return Join(parts, 0);
  }

 private:
  const Value final_;
  Value now_;
  std::vector<Value> begun_;  // the last rows first
};

// The cell's new h and c.
std::pair<Value, Value> RunCell(RnnMode mode, const Cell& cell) {
  OpContext& c = *cell.h.context();
  if (mode == RnnMode::kLstm) {
    const Value next_c = c.Apply("lstm_cell", {cell.from_x, cell.from_h, cell.c});
    return {Value(&c, next_c.id() + 1), next_c};
  }
  if (mode == RnnMode::kGru) {
    const std::vector<Value> x = Gates(cell.from_x, 3);
    const std::vector<Value> h = Gates(cell.from_h, 3);
    const Value z = Sigmoid(x[1] + h[1]);
    const Value candidate = Tanh(x[2] + Sigmoid(x[0] + h[0]) * h[2]);
    return {(1.0 - z) * candidate + z * cell.h, Value()};
  }
  const Value sum = cell.from_x + cell.from_h;
  return {mode == RnnMode::kTanh ? Tanh(sum) : c.Apply("relu", {sum}), Value()};
}

// Of what the cell started from; h: but for what goes through from_h, or absent.
Cell CellGrad(RnnMode mode, const Cell& cell, Value gh, Value gc) {
  OpContext& c = *cell.h.context();
  Cell grad;
  if (mode == RnnMode::kLstm) {
    grad.from_x = c.Apply("lstm_cell_grad", {cell.from_x, cell.from_h, cell.c, gc, gh});
    grad.from_h = grad.from_x;
    grad.c = Value(&c, grad.from_x.id() + 1);
    return grad;
  }
  if (mode == RnnMode::kGru) {
    const std::vector<Value> x = Gates(cell.from_x, 3);
    const std::vector<Value> h = Gates(cell.from_h, 3);
    const Value r = Sigmoid(x[0] + h[0]);
    const Value z = Sigmoid(x[1] + h[1]);
    const Value candidate = Tanh(x[2] + r * h[2]);
    const Value g_candidate = gh * (1.0 - z) * (1.0 - candidate * candidate);
    const Value gz = gh * (cell.h - candidate) * z * (1.0 - z);
    const Value gr = g_candidate * h[2] * r * (1.0 - r);
    grad.from_x = Join({gr, gz, g_candidate}, 1);
    grad.from_h = Join({gr, gz, g_candidate * r}, 1);
    grad.h = gh * z;
    return grad;
  }
  const Value y = RunCell(mode, cell).first;
  grad.from_x = mode == RnnMode::kTanh ? gh * (1.0 - y * y) : c.Apply("relu_grad", {y, gh});
  grad.from_h = grad.from_x;
  return grad;
}

Value Linear(Value x, Value w, Value b) { return x.context()->Apply("linear", {x, w, b}); }
Value Matmul(Value a, Value b) { return a.context()->Apply("matmul", {a, b}); }
Value Transpose(Value a) { return a.context()->Apply("transpose", {a}); }
Value SumOfRows(Value a) { return a.context()->Apply("sum", {a}, {{"axis", AttrValue(Ints{0})}}); }

}  // namespace

Value Rows(Value a, int64_t begin, int64_t end) {
  if (begin == 0 && end == a.shape()[0]) return a;
  return a.context()->Apply("getitem", {a},
                            {{"index", IndexBuilder().Slice(begin, end, {}).Build()}});
}

Value Join(absl::Span<const Value> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return parts[0].context()->Apply("concatenate", parts, {{"axis", axis}});
}

Value Zeros(OpContext& c, Dtype dtype, const Shape& shape) {
  return c.Apply("zeros", {}, {{"shape", AttrValue::FromInts(shape.span())}, {"dtype", dtype}});
}

Part RunSteps(const RnnNetwork& network, bool backwards, Value from_x, Value h_weights,
              Value h_biases, Value initial_h, Value initial_c) {
  Part part;
  part.h_weights = h_weights;
  const int steps = network.num_steps();
  part.final_h = initial_h;
  part.final_c = initial_c;
  if (steps == 0) {
    part.y = Zeros(*from_x.context(), from_x.dtype(), {0, network.hidden});
    return part;
  }
  State h(initial_h, backwards);
  State cells(network.has_cell() ? initial_c : initial_h, backwards);
  std::vector<Value> ys(steps);
  part.cells.resize(steps);
  for (int i = 0; i < steps; ++i) {
    const int step = StepAt(network, backwards, i);
    Cell& cell = part.cells[step];
    cell.h = h.Before(network.rows[step]);
    if (network.has_cell()) cell.c = cells.Before(network.rows[step]);
    cell.from_x = RowsOfStep(network, from_x, step);
    cell.from_h = Linear(cell.h, h_weights, h_biases);
    const auto [next_h, next_c] = RunCell(network.mode, cell);
    ys[step] = next_h;
    h.Set(next_h);
    if (network.has_cell()) cells.Set(next_c);
  }
  part.y = Join(ys, 0);
  part.final_h = h.Finish();
  if (network.has_cell()) part.final_c = cells.Finish();
  return part;
}

StepGrads RunStepsBack(const RnnNetwork& network, bool backwards, const Part& part, Value gy,
                       Value gh, Value gc) {
  const int steps = network.num_steps();
  if (steps == 0) {
    OpContext& c = *part.y.context();
    const Value gates = Zeros(c, gy.dtype(), {0, network.gates() * network.hidden});
    return {gates, gates, Zeros(c, gy.dtype(), {0, network.hidden}), gh, gc};
  }
  const int64_t last = network.rows[StepAt(network, backwards, steps - 1)];
  StateGrad h(gh, last);
  StateGrad cells(network.has_cell() ? gc : gh, last);
  std::vector<Value> from_x(steps);
  std::vector<Value> from_h(steps);
  std::vector<Value> hs(steps);
  for (int i = steps - 1; i >= 0; --i) {
    const int step = StepAt(network, backwards, i);
    const Cell& cell = part.cells[step];
    const Value total = h.now() + RowsOfStep(network, gy, step);
    const Cell grad = CellGrad(network.mode, cell, total, cells.now());
    from_x[step] = grad.from_x;
    from_h[step] = grad.from_h;
    hs[step] = cell.h;
    const int64_t rows = network.rows[step];
    const int64_t before = i > 0       ? network.rows[StepAt(network, backwards, i - 1)]
                           : backwards ? 0
                                       : network.batch;
    const Value through = Matmul(grad.from_h, part.h_weights);
    h.Set(grad.h.absent() ? through : through + grad.h, rows, before);
    if (network.has_cell()) cells.Set(grad.c, rows, before);
  }
  StepGrads grads{Join(from_x, 0), Join(from_h, 0), Join(hs, 0), h.Finish(backwards, last),
                  Value()};
  if (network.has_cell()) grads.c = cells.Finish(backwards, last);
  return grads;
}

Part Run(const RnnNetwork& network, bool backwards, Value x, const Value* weights, Value initial_h,
         Value initial_c) {
  const Value x_weights = weights[static_cast<int>(RnnWeight::kFromX)];
  // What does not wait for other steps is computed for all at once.
  const Value from_x = Linear(x, x_weights, weights[static_cast<int>(RnnWeight::kBiasOfX)]);
  Part part = RunSteps(network, backwards, from_x, weights[static_cast<int>(RnnWeight::kFromH)],
                       weights[static_cast<int>(RnnWeight::kBiasOfH)], initial_h, initial_c);
  part.x = x;
  part.x_weights = x_weights;
  return part;
}

PartGrads RunBack(const RnnNetwork& network, bool backwards, const Part& part, Value gy, Value gh,
                  Value gc) {
  const StepGrads steps = RunStepsBack(network, backwards, part, gy, gh, gc);
  PartGrads grads;
  grads.x = Matmul(steps.from_x, part.x_weights);
  grads.h = steps.h;
  grads.c = steps.c;
  grads.weights[0] = Matmul(Transpose(steps.from_x), part.x);
  grads.weights[1] = Matmul(Transpose(steps.from_h), steps.before);
  grads.weights[2] = SumOfRows(steps.from_x);
  grads.weights[3] = SumOfRows(steps.from_h);
  return grads;
}

}  // namespace sequences
}  // namespace chx
