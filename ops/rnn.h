// Recurrent networks over packed sequences: the arrays of the operators `rnn` and `rnn_grad`, for
// their rules, compositions and kernels.
//
// The rows of all steps lie one after the other, those of the first step first. Sequences are
// sorted, the longest first: a step has the rows of those that still go on.
#ifndef CHX_OPS_RNN_H_
#define CHX_OPS_RNN_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ops/array_spec.h"
#include "ops/attr.h"

namespace chx {

// In the order of the attribute's words.
enum class RnnMode { kLstm, kGru, kTanh, kRelu };

// The gates of a cell's weights: i, f, a, o of an LSTM; r, z and the candidate of a GRU; one.
int RnnGates(RnnMode mode);

// What each layer and direction has for each gate.
enum class RnnWeight { kFromX, kFromH, kBiasOfX, kBiasOfH };
inline constexpr int kRnnWeights = 4;

// A network of `layers`, each in one or two directions; a part is one of them, and the second
// direction of a layer goes through each sequence from its end. Inputs of the operator are
//   x (rows of all steps, input), hx (parts, batch, hidden), and for an LSTM cx of hx's shape,
//   then of each part for each gate: weights for x (hidden, width), weights for h (hidden, hidden),
//   biases for x and biases for h (hidden,).
struct RnnNetwork {
  RnnMode mode = RnnMode::kLstm;
  int layers = 1;
  int directions = 1;
  int64_t batch = 0;
  int64_t input = 0;
  int64_t hidden = 0;
  Ints rows;     // of each step; steps at the end without rows are left out
  Ints offsets;  // of each step's first row, then the number of all rows

  int gates() const { return RnnGates(mode); }
  bool has_cell() const { return mode == RnnMode::kLstm; }
  int parts() const { return layers * directions; }
  int num_states() const { return has_cell() ? 2 : 1; }
  int num_steps() const { return static_cast<int>(rows.size()); }
  int64_t total_rows() const { return offsets.back(); }
  // Features of what a part reads.
  int64_t width(int part) const { return part < directions ? input : directions * hidden; }
  int num_inputs() const { return 1 + num_states() + parts() * kRnnWeights * gates(); }
  // The position of one of the weights among the inputs.
  int Position(int part, RnnWeight weight, int gate) const {
    return 1 + num_states() + (part * kRnnWeights + static_cast<int>(weight)) * gates() + gate;
  }
  Shape x_shape() const { return {total_rows(), input}; }
  Shape y_shape() const { return {total_rows(), directions * hidden}; }
  Shape state_shape() const { return {parts(), batch, hidden}; }
  Shape WeightShape(int part, RnnWeight weight) const;
};

// From the shapes of x and hx and the attributes rows, layers, directions and mode. Errors name
// `op`: sizes that don't fit together, rows that are negative or grow, too many steps.
absl::StatusOr<RnnNetwork> MakeRnnNetwork(absl::string_view op, const Shape& x, const Shape& hx,
                                          absl::Span<const AttrValue> attrs);

// Of `lstm_layer`: one layer and direction, from the shapes of what x gives for the gates (rows of
// all steps, 4 * hidden) and of the states (batch, hidden).
absl::StatusOr<RnnNetwork> MakeLstmLayer(absl::string_view op, const Shape& from_x, const Shape& hx,
                                         const AttrValue& rows);

// Calls with more steps than this, or more cells in all parts and steps, are refused: the work of a
// call must be in proportion to its size on the wire. The first is also how many parts `split`
// makes.
inline constexpr int64_t kMaxRnnSteps = 4096;
inline constexpr int64_t kMaxRnnCells = 65536;

}  // namespace chx

#endif  // CHX_OPS_RNN_H_
