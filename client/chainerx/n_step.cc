// Recurrent networks over sequences, step by step, as python_client/chx/_recurrent.py has them.
#include <algorithm>
#include <utility>

#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

struct State {
  Array h;
  Optional<Array> c;  // where the cell has one
};

// The next state, whose h is the output.
using Cell = State (*)(const Array& from_x, const Array& from_h, const State& state);

State LstmCell(const Array& from_x, const Array& from_h, const State& state) {
  const std::vector<Array> next =
      internal::CallMulti(internal::Operator("lstm_cell"), {from_x, from_h, *state.c}, {});
  return {next[1], next[0]};
}

State GruCell(const Array& from_x, const Array& from_h, const State& state) {
  const std::vector<Array> x = Split(from_x, 3, 1);
  const std::vector<Array> h = Split(from_h, 3, 1);
  const Array z = Sigmoid(x[1] + h[1]);
  const Array candidate = Tanh(x[2] + Sigmoid(x[0] + h[0]) * h[2]);
  return {(1 - z) * candidate + z * state.h, std::nullopt};
}

State TanhCell(const Array& from_x, const Array& from_h, const State& /*state*/) {
  return {Tanh(from_x + from_h), std::nullopt};
}

State ReluCell(const Array& from_x, const Array& from_h, const State& /*state*/) {
  return {Relu(from_x + from_h), std::nullopt};
}

struct Kind {
  Cell cell;
  size_t gates;
};

struct Network {
  Kind kind;
  int64_t n_layers;
  int64_t directions;
  const ArrayLists& ws;
  const ArrayLists& bs;
};

void Check(const Network& network, const Array& hx, const std::vector<Array>& xs) {
  const int64_t parts = network.n_layers * network.directions;
  const auto count = static_cast<size_t>(parts);
  if (parts <= 0 || hx.ndim() != 3 || hx.shape()[0] != parts || network.ws.size() != count ||
      network.bs.size() != count || xs.empty()) {
    throw DimensionError("[n_step] expects states (", parts, ", N, C), ", parts,
                         " lists of weights and of biases, and steps, got ", hx.shape(), ", ",
                         network.ws.size(), ", ", network.bs.size(), " and ", xs.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t expected = 2 * network.kind.gates;
    if (network.ws[i].size() != expected || network.bs[i].size() != expected) {
      throw DimensionError("[n_step] expects ", expected, " weights and biases each, got ",
                           network.ws[i].size(), " and ", network.bs[i].size());
    }
  }
  int64_t rows = hx.shape()[1];
  for (const Array& x : xs) {
    if (x.ndim() == 0 || x.shape()[0] > rows) {
      throw DimensionError("[n_step] expects steps whose rows do not grow in number, got ",
                           x.shape(), " after ", rows, " rows");
    }
    rows = x.shape()[0];
  }
}

Array Rows(const Array& a, int64_t first, int64_t last) {
  return first == 0 && last == a.shape()[0] ? a : a.At({Slice(first, last)});
}

// The new rows, and below them those of states that have ended.
Array Updated(const Array& rows, const Array& old) {
  const int64_t count = rows.shape()[0];
  if (count == old.shape()[0]) return rows;
  return Concatenate({rows, Rows(old, count, old.shape()[0])});
}

Array Joined(const std::vector<Array>& gates, size_t first, size_t count) {
  const auto begin = gates.begin() + static_cast<std::ptrdiff_t>(first);
  return Concatenate(std::vector<Array>(begin, begin + static_cast<std::ptrdiff_t>(count)));
}

// One layer in one direction: the outputs. *state: the first one, then the last.
std::vector<Array> Run(const Network& network, size_t part, const std::vector<Array>& xs,
                       State* state) {
  const size_t gates = network.kind.gates;
  const Array xw = Joined(network.ws[part], 0, gates);
  const Array xb = Joined(network.bs[part], 0, gates);
  const Array hw = Joined(network.ws[part], gates, gates);
  const Array hb = Joined(network.bs[part], gates, gates);
  std::vector<Array> ys;
  for (const Array& x : xs) {
    const int64_t rows = x.shape()[0];
    State top{Rows(state->h, 0, rows), std::nullopt};
    if (state->c.has_value()) top.c = Rows(*state->c, 0, rows);
    const State next = network.kind.cell(Linear(x, xw, xb), Linear(top.h, hw, hb), top);
    ys.push_back(next.h);
    state->h = Updated(next.h, state->h);
    if (state->c.has_value()) state->c = Updated(*next.c, *state->c);
  }
  return ys;
}

// {{hy}, ys} or {{hy, cy}, ys}.
ArrayLists NStep(const Network& network, const Array& hx, const Optional<Array>& cx,
                 std::vector<Array> xs) {
  Check(network, hx, xs);
  std::vector<Array> hs;
  std::vector<Array> cs;
  for (int64_t layer = 0; layer < network.n_layers; ++layer) {
    ArrayLists outputs;
    for (int64_t direction = 0; direction < network.directions; ++direction) {
      const int64_t part = layer * network.directions + direction;
      State state{hx.At({part}), std::nullopt};
      if (cx.has_value()) state.c = cx->At({part});
      std::vector<Array> steps = xs;
      if (direction == 1) std::reverse(steps.begin(), steps.end());
      outputs.push_back(Run(network, static_cast<size_t>(part), steps, &state));
      if (direction == 1) std::reverse(outputs[1].begin(), outputs[1].end());
      hs.push_back(state.h);
      if (state.c.has_value()) cs.push_back(*state.c);
    }
    for (size_t i = 0; i < xs.size(); ++i) {
      xs[i] =
          network.directions == 1 ? outputs[0][i] : Concatenate({outputs[0][i], outputs[1][i]}, 1);
    }
  }
  std::vector<Array> states = {Stack(hs)};
  if (cx.has_value()) states.push_back(Stack(cs));
  return {std::move(states), std::move(xs)};
}

Kind Plain(const Optional<std::string>& activation) {
  const std::string name = activation.value_or("tanh");
  if (name == "tanh") return {TanhCell, 1};
  if (name == "relu") return {ReluCell, 1};
  throw ValueError("[n_step_rnn] expects activation 'tanh' or 'relu', got '", name, "'");
}

constexpr Kind kLstm = {LstmCell, 4};
constexpr Kind kGru = {GruCell, 3};

}  // namespace

ArrayLists NStepLstm(int64_t n_layers, const Array& hx, Array cx, const ArrayLists& ws,
                     const ArrayLists& bs, std::vector<Array>& xs) {
  return NStep({kLstm, n_layers, 1, ws, bs}, hx, cx, xs);
}
ArrayLists NStepBiLstm(int64_t n_layers, const Array& hx, Array cx, const ArrayLists& ws,
                       const ArrayLists& bs, std::vector<Array>& xs) {
  return NStep({kLstm, n_layers, 2, ws, bs}, hx, cx, xs);
}
ArrayLists NStepGru(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                    std::vector<Array>& xs) {
  return NStep({kGru, n_layers, 1, ws, bs}, hx, std::nullopt, xs);
}
ArrayLists NStepBiGru(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                      std::vector<Array>& xs) {
  return NStep({kGru, n_layers, 2, ws, bs}, hx, std::nullopt, xs);
}
ArrayLists NStepRnn(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                    std::vector<Array>& xs, Optional<std::string> activation) {
  return NStep({Plain(activation), n_layers, 1, ws, bs}, hx, std::nullopt, xs);
}
ArrayLists NStepBiRnn(int64_t n_layers, const Array& hx, const ArrayLists& ws, const ArrayLists& bs,
                      std::vector<Array>& xs, Optional<std::string> activation) {
  return NStep({Plain(activation), n_layers, 2, ws, bs}, hx, std::nullopt, xs);
}

}  // namespace chainerx
