// Cells of recurrent networks: compositions. For whole sequences, clients apply them step by step
// (chx/_recurrent.py), so that a step depends only on its own inputs, or use one operator
// (sequences.cc).
#include "ops/basic_index.h"
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

using Values = absl::InlinedVector<Value, 8>;

Value Join(OpContext& c, absl::Span<const Value> parts, int64_t axis) {
  return parts.size() == 1 ? parts[0] : c.Apply("concatenate", parts, {{"axis", axis}});
}

// All inputs of one float dtype; integers are refused.
absl::Status CheckFloats(InferContext& c, Dtype* dtype) {
  *dtype = c.input(0).dtype;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (!IsFloat(c.input(i).dtype)) {
      return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(c.input(i).dtype));
    }
    *dtype = PromoteTypes(*dtype, c.input(i).dtype);
  }
  return absl::OkStatus();
}

// x (n, gates * C, ...) belongs to a state (N, C, ...); N == n, or N >= n.
absl::Status CheckGates(const InferContext& c, const ArraySpec& x, const ArraySpec& state,
                        int64_t gates, bool fewer_rows) {
  bool fits = state.ndim() >= 2 && x.ndim() == state.ndim() &&
              x.shape[1] == gates * state.shape[1] &&
              (fewer_rows ? x.shape[0] <= state.shape[0] : x.shape[0] == state.shape[0]);
  for (int i = 2; fits && i < x.ndim(); ++i) fits = x.shape[i] == state.shape[i];
  if (fits) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects shapes (N, C, ...) and (N, ", gates,
                        " * C, ...), got ", state.shape.ToString(), " and ", x.shape.ToString());
}

// The gates of x (N, gates * C, ...): every `gates`-th channel, or `gates` blocks of channels.
Values Gates(Value x, int64_t gates, bool blocks) {
  OpContext& c = *x.context();
  Shape shape{x.shape()[0]};
  const int64_t channels = x.shape()[1] / gates;
  shape.push_back(blocks ? gates : channels);
  shape.push_back(blocks ? channels : gates);
  for (int i = 2; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  const Value apart = c.Apply("reshape", {x}, {{"newshape", AttrValue::FromInts(shape.span())}});
  Values result;
  for (int64_t i = 0; i < gates; ++i) {
    IndexBuilder index;
    index.Slice({}, {}, {});
    if (!blocks) index.Slice({}, {}, {});
    result.push_back(c.Apply("getitem", {apart}, {{"index", index.Int(i).Build()}}));
  }
  return result;
}

// lstm: c (N, C, ...), x (n <= N, 4 * C, ...).
absl::Status LstmRule(InferContext& c) {
  Dtype dtype;
  CHX_RETURN_IF_ERROR(CheckFloats(c, &dtype));
  if (c.input(0).dtype != c.input(1).dtype) {
    return DtypeError("[lstm] expects c and x of one dtype, got ", DtypeName(c.input(0).dtype),
                      " and ", DtypeName(c.input(1).dtype));
  }
  CHX_RETURN_IF_ERROR(CheckGates(c, c.input(1), c.input(0), 4, true));
  Shape h = c.input(0).shape;
  h[0] = c.input(1).shape[0];
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(0).shape));
  return c.AddOutput(dtype, h);
}

void Lstm(ComposeContext& c) {
  const Value c_prev = c.input(0);
  const Value x = c.input(1);
  const int64_t rows = x.shape()[0];
  const int64_t all = c_prev.shape()[0];
  const Values gates = Gates(x, 4, false);  // a, i, f, o
  const Value current = rows == all ? c_prev : SliceAxis(c_prev, 0, 0, rows);
  const Value next = Tanh(gates[0]) * Sigmoid(gates[1]) + Sigmoid(gates[2]) * current;
  const Value h = Sigmoid(gates[3]) * Tanh(next);
  c.SetOutput(0, rows == all ? next : Join(c, {next, SliceAxis(c_prev, 0, rows, all)}, 0));
  c.SetOutput(1, h);
}

// lstm_cell: x and h (N, 4 * C), added up, in blocks i, f, a, o; c (N, C).
absl::Status LstmCellInputs(InferContext& c, Dtype* dtype) {
  CHX_RETURN_IF_ERROR(CheckFloats(c, dtype));
  for (int i = 0; i < 2; ++i) {
    CHX_RETURN_IF_ERROR(CheckGates(c, c.input(i), c.input(2), 4, false));
  }
  return absl::OkStatus();
}

absl::Status LstmCellRule(InferContext& c) {
  Dtype dtype;
  CHX_RETURN_IF_ERROR(LstmCellInputs(c, &dtype));
  for (int i = 0; i < 2; ++i) CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(2).shape));
  return absl::OkStatus();
}

void LstmCell(ComposeContext& c) {
  const Values gates = Gates(c.input(0) + c.input(1), 4, true);
  const Value next = Sigmoid(gates[1]) * c.input(2) + Sigmoid(gates[0]) * Tanh(gates[2]);
  c.SetOutput(0, next);
  c.SetOutput(1, Sigmoid(gates[3]) * Tanh(next));
}

// x, h, c, gc, gh.
absl::Status LstmCellGradRule(InferContext& c) {
  Dtype dtype;
  CHX_RETURN_IF_ERROR(LstmCellInputs(c, &dtype));
  for (int i = 3; i < 5; ++i) {
    if (c.input(i).shape == c.input(2).shape) continue;
    return DimensionError("[", c.name(), "] expects gradients of shape ",
                          c.input(2).shape.ToString(), ", got ", c.input(i).shape.ToString());
  }
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(0).shape));
  return c.AddOutput(dtype, c.input(2).shape);
}

void LstmCellGrad(ComposeContext& c) {
  const Values gates = Gates(c.input(0) + c.input(1), 4, true);
  const Value i = Sigmoid(gates[0]);
  const Value f = Sigmoid(gates[1]);
  const Value a = Tanh(gates[2]);
  const Value o = Sigmoid(gates[3]);
  const Value before = c.input(2);
  const Value squashed = Tanh(f * before + i * a);
  const Value gh = c.input(4);
  const Value total = c.input(3) + gh * o * (1.0 - squashed * squashed);
  const Value parts[] = {total * a * i * (1.0 - i), total * before * f * (1.0 - f),
                         total * i * (1.0 - a * a), gh * squashed * o * (1.0 - o)};
  c.SetOutput(0, Join(c, parts, 1));
  c.SetOutput(1, total * f);
}

void LstmCellGradient(GradContext& g) {
  const Value c = g.input(2);
  const auto grad = [&](int i) {
    const Value given = g.output_grad(i);
    return given.is_array() ? given : g.Apply("zeros_like", {c});
  };
  const Value gz = g.Apply("lstm_cell_grad", {g.input(0), g.input(1), c, grad(0), grad(1)});
  for (int i = 0; i < 2; ++i) {
    if (g.needs_grad(i)) g.SetInputGrad(i, gz);
  }
  if (g.needs_grad(2)) g.SetInputGrad(2, Value(&g, gz.id() + 1));
}

// slstm: two states and two inputs.
absl::Status SlstmRule(InferContext& c) {
  Dtype dtype;
  CHX_RETURN_IF_ERROR(CheckFloats(c, &dtype));
  if (c.input(0).shape != c.input(1).shape) {
    return DimensionError("[slstm] expects two states of one shape, got ",
                          c.input(0).shape.ToString(), " and ", c.input(1).shape.ToString());
  }
  for (int i = 2; i < 4; ++i) {
    CHX_RETURN_IF_ERROR(CheckGates(c, c.input(i), c.input(0), 4, false));
  }
  for (int i = 0; i < 2; ++i) CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(0).shape));
  return absl::OkStatus();
}

void Slstm(ComposeContext& c) {
  Value next;
  Value output;
  for (int i = 0; i < 2; ++i) {
    const Values gates = Gates(c.input(2 + i), 4, false);  // a, i, f, o
    const Value part = Tanh(gates[0]) * Sigmoid(gates[1]) + Sigmoid(gates[2]) * c.input(i);
    next = i == 0 ? part : next + part;
    output = i == 0 ? gates[3] : output + gates[3];
  }
  c.SetOutput(0, next);
  c.SetOutput(1, Sigmoid(output) * Tanh(next));
}

// tree_lstm: states c_1 ... c_n (N, C), then x (N, (3 + n) * C).
absl::Status TreeLstmRule(InferContext& c) {
  Dtype dtype;
  CHX_RETURN_IF_ERROR(CheckFloats(c, &dtype));
  const int children = c.num_inputs() - 1;
  if (children < 1) return DimensionError("[tree_lstm] expects at least one state and x");
  for (int i = 1; i < children; ++i) {
    if (c.input(i).shape == c.input(0).shape) continue;
    return DimensionError("[tree_lstm] expects states of one shape, got ",
                          c.input(0).shape.ToString(), " and ", c.input(i).shape.ToString());
  }
  CHX_RETURN_IF_ERROR(CheckGates(c, c.input(children), c.input(0), 3 + children, false));
  for (int i = 0; i < 2; ++i) CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(0).shape));
  return absl::OkStatus();
}

void TreeLstm(ComposeContext& c) {
  const int children = c.num_inputs() - 1;
  const Values gates = Gates(c.input(children), 3 + children, true);  // a, i, o, f_1 ... f_n
  Value next = Tanh(gates[0]) * Sigmoid(gates[1]);
  for (int i = 0; i < children; ++i) next = next + Sigmoid(gates[3 + i]) * c.input(i);
  c.SetOutput(0, next);
  c.SetOutput(1, Sigmoid(gates[2]) * Tanh(next));
}

}  // namespace

void RegisterRecurrent(OpRegistry& r) {
  r.Add("lstm")
      .Doc(
          "The next state c (N, C, ...) and output h (n, C, ...) of an LSTM for x (n, 4 * C, ...), "
          "in which a, i, f and o alternate; n may be below N. c and x have one float dtype.")
      .Inputs({"c", "x"})
      .Outputs({"c_next", "h"})
      .Compose(LstmRule, Lstm);
  r.Add("lstm_cell")
      .Doc(
          "The next state and output (N, C, ...) of an LSTM from the gates that x gives and those "
          "that h gives, both (N, 4 * C, ...) in blocks i, f, a, o.")
      .Inputs({"x", "h", "c"})
      .Outputs({"c_next", "h_next"})
      .Compose(LstmCellRule, LstmCell)
      .Saves({"x", "h", "c"})
      .Gradient(LstmCellGradient);
  r.Add("lstm_cell_grad")
      .Doc("lstm_cell's gradients: of x, which is h's too, and of c.")
      .Inputs({"x", "h", "c", "gc", "gh"})
      .Outputs({"gz", "gc_before"})
      .Compose(LstmCellGradRule, LstmCellGrad)
      .Internal();
  r.Add("slstm")
      .Doc(
          "The next state and output of an S-LSTM, which joins two states (N, C, ...) and two "
          "inputs "
          "(N, 4 * C, ...).")
      .Inputs({"c_prev1", "c_prev2", "x1", "x2"})
      .Outputs({"c_next", "h"})
      .Compose(SlstmRule, Slstm);
  r.Add("tree_lstm")
      .Doc(
          "The next state and output of a tree LSTM: the states (N, C, ...) of its n children, "
          "then "
          "x (N, (3 + n) * C, ...) in blocks a, i, o, f_1 ... f_n.")
      .Inputs({"inputs..."})
      .Outputs({"c_next", "h"})
      .Compose(TreeLstmRule, TreeLstm);
}

}  // namespace chx
