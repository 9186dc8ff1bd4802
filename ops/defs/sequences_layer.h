// One layer of a recurrent network in one direction, composed of differentiable operators: its run
// over the steps, and the gradient. The compositions in sequences.cc consist of such parts.
#ifndef CHX_OPS_DEFS_SEQUENCES_LAYER_H_
#define CHX_OPS_DEFS_SEQUENCES_LAYER_H_

#include <vector>

#include "ops/op_context.h"
#include "ops/rnn.h"

namespace chx {
namespace sequences {

// What a cell starts from: what x and h give for its gates (rows, gates * hidden), and the states
// (rows, hidden); c of an LSTM only.
struct Cell {
  Value from_x;
  Value from_h;
  Value h;
  Value c;
};

// A part that has run. Cells and outputs are in the order of the steps, whichever way it went.
struct Part {
  Value x;          // what it reads, (rows of all steps, width)
  Value x_weights;  // of all gates, one after the other
  Value h_weights;
  std::vector<Cell> cells;
  Value y;        // (rows of all steps, hidden)
  Value final_h;  // (batch, hidden)
  Value final_c;
};

// Gradients of what the steps of a part use, and h of each row before its step.
struct StepGrads {
  Value from_x;  // (rows of all steps, gates * hidden)
  Value from_h;
  Value before;
  Value h;
  Value c;
};

// Gradients of what a part uses; those of weights by kind, of all gates.
struct PartGrads {
  Value x;
  Value h;
  Value c;
  Value weights[kRnnWeights];
};

// Rows [begin, end) of a; a itself if that is all of it.
Value Rows(Value a, int64_t begin, int64_t end);
// Arrays joined along an axis; the array itself if it is one.
Value Join(absl::Span<const Value> parts, int64_t axis);
Value Zeros(OpContext& c, Dtype dtype, const Shape& shape);

// The steps of a part, from what x gives for its gates in all of them; without x and its weights.
Part RunSteps(const RnnNetwork& network, bool backwards, Value from_x, Value h_weights,
              Value h_biases, Value initial_h, Value initial_c);
// From the gradients of what the part made; gc is absent where there is no c.
StepGrads RunStepsBack(const RnnNetwork& network, bool backwards, const Part& part, Value gy,
                       Value gh, Value gc);

// weights: by kind, those of all gates joined. h and c: the initial states.
Part Run(const RnnNetwork& network, bool backwards, Value x, const Value* weights, Value initial_h,
         Value initial_c);

PartGrads RunBack(const RnnNetwork& network, bool backwards, const Part& part, Value gy, Value gh,
                  Value gc);

}  // namespace sequences
}  // namespace chx

#endif  // CHX_OPS_DEFS_SEQUENCES_LAYER_H_
