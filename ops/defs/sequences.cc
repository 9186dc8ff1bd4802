// Recurrent networks over whole sequences: compositions, for which a backend may have a kernel. The
// gradient is an operator of its own, backpropagation through time written out of differentiable
// operators, so that it can be differentiated again.
#include <array>

#include "ops/basic_index.h"
#include "ops/defs/register_groups.h"
#include "ops/defs/sequences_layer.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

using sequences::Join;
using sequences::Part;
using sequences::PartGrads;

constexpr int kX = 0;
constexpr int kHx = 1;

absl::Status CheckShapeOf(const InferContext& c, int i, const Shape& shape) {
  if (c.input(i).shape == shape) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects array ", i, " of shape ", shape.ToString(),
                        ", got ", c.input(i).shape.ToString());
}

// The compositions' intermediate results must be valid arrays, too.
absl::Status CheckParts(const InferContext& c, const RnnNetwork& network) {
  const int64_t gates = network.gates() * network.hidden;
  for (const int64_t width : {network.input, network.directions * network.hidden}) {
    const Shape weights = {gates, width};
    CHX_RETURN_IF_ERROR(CheckShape(c.name(), weights.span(), c.input(kX).dtype));
  }
  const Shape from_x = {network.total_rows(), gates};
  return CheckShape(c.name(), from_x.span(), c.input(kX).dtype);
}

// The arrays of rnn, after which there may be the gradients of its results.
absl::StatusOr<RnnNetwork> CheckNetwork(const InferContext& c, bool has_grads) {
  const Dtype dtype = c.input(0).dtype;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (IsFloat(dtype) && c.input(i).dtype == dtype) continue;
    return DtypeError("[", c.name(), "] expects arrays of one float dtype, got ", DtypeName(dtype),
                      " and ", DtypeName(c.input(i).dtype));
  }
  if (c.num_inputs() < 2) return DimensionError("[", c.name(), "] expects x, states and weights");
  CHX_ASSIGN_OR_RETURN(RnnNetwork network,
                       MakeRnnNetwork(c.name(), c.input(kX).shape, c.input(kHx).shape,
                                      absl::MakeConstSpan(&c.attr(0), 4)));
  const int expected = network.num_inputs() + (has_grads ? 1 + network.num_states() : 0);
  if (c.num_inputs() != expected) {
    return DimensionError("[", c.name(), "] expects ", expected, " arrays for ", network.parts(),
                          " layers and directions, got ", c.num_inputs());
  }
  CHX_RETURN_IF_ERROR(CheckParts(c, network));
  if (network.has_cell()) CHX_RETURN_IF_ERROR(CheckShapeOf(c, kHx + 1, network.state_shape()));
  for (int part = 0; part < network.parts(); ++part) {
    for (int kind = 0; kind < kRnnWeights; ++kind) {
      const auto weight = static_cast<RnnWeight>(kind);
      const Shape shape = network.WeightShape(part, weight);
      for (int gate = 0; gate < network.gates(); ++gate) {
        CHX_RETURN_IF_ERROR(CheckShapeOf(c, network.Position(part, weight, gate), shape));
      }
    }
  }
  return network;
}

absl::Status RnnRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const RnnNetwork network, CheckNetwork(c, false));
  const Dtype dtype = c.input(kX).dtype;
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, network.y_shape()));
  for (int i = 0; i < network.num_states(); ++i) {
    CHX_RETURN_IF_ERROR(c.AddOutput(dtype, network.state_shape()));
  }
  return absl::OkStatus();
}

absl::Status RnnGradRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const RnnNetwork network, CheckNetwork(c, true));
  const int inputs = network.num_inputs();
  CHX_RETURN_IF_ERROR(CheckShapeOf(c, inputs, network.y_shape()));
  for (int i = 0; i < network.num_states(); ++i) {
    CHX_RETURN_IF_ERROR(CheckShapeOf(c, inputs + 1 + i, network.state_shape()));
  }
  for (int i = 0; i < inputs; ++i) {
    CHX_RETURN_IF_ERROR(c.AddOutput(c.input(i).dtype, c.input(i).shape));
  }
  return absl::OkStatus();
}

// What both compositions share.
class LayerStack {
 public:
  explicit LayerStack(ComposeContext& c)
      : c_(c),
        network_(MakeRnnNetwork(c.op().name, c.input(kX).shape(), c.input(kHx).shape(), c.attrs())
                     .value_or(RnnNetwork())) {}

  const RnnNetwork& network() const { return network_; }

  // One part of an array (parts, batch, hidden).
  Value StateOf(int input, int part) {
    return c_.Apply("getitem", {c_.input(input)}, {{"index", IndexBuilder().Int(part).Build()}});
  }

  void Run() {
    Value x = c_.input(kX);
    for (int layer = 0; layer < network_.layers; ++layer) {
      std::vector<Value> ys;
      for (int direction = 0; direction < network_.directions; ++direction) {
        const int part = layer * network_.directions + direction;
        const std::array<Value, kRnnWeights> weights = Weights(part);
        const Value cx = network_.has_cell() ? StateOf(kHx + 1, part) : Value();
        parts_.push_back(
            sequences::Run(network_, direction == 1, x, weights.data(), StateOf(kHx, part), cx));
        ys.push_back(parts_.back().y);
      }
      x = Join(ys, 1);
    }
    y_ = x;
  }

  const std::vector<Part>& parts() const { return parts_; }
  Value y() const { return y_; }

 private:
  std::array<Value, kRnnWeights> Weights(int part) {
    std::array<Value, kRnnWeights> weights;
    for (int kind = 0; kind < kRnnWeights; ++kind) {
      std::vector<Value> gates;
      gates.reserve(network_.gates());
      for (int gate = 0; gate < network_.gates(); ++gate) {
        gates.push_back(c_.input(network_.Position(part, static_cast<RnnWeight>(kind), gate)));
      }
      weights[kind] = Join(gates, 0);
    }
    return weights;
  }

  ComposeContext& c_;
  const RnnNetwork network_;
  std::vector<Part> parts_;
  Value y_;
};

void RnnCompose(ComposeContext& c) {
  LayerStack stack(c);
  stack.Run();
  c.SetOutput(0, stack.y());
  std::vector<Value> hs;
  std::vector<Value> cs;
  for (const Part& part : stack.parts()) {
    hs.push_back(part.final_h);
    cs.push_back(part.final_c);
  }
  c.SetOutput(1, c.Apply("stack", hs));
  if (stack.network().has_cell()) c.SetOutput(2, c.Apply("stack", cs));
}

void RnnGradCompose(ComposeContext& c) {
  LayerStack stack(c);
  stack.Run();
  const RnnNetwork& network = stack.network();
  const int gy_at = network.num_inputs();
  const int64_t hidden = network.hidden;
  std::vector<Value> hs(network.parts());
  std::vector<Value> cs(network.parts());
  Value gy = c.input(gy_at);
  for (int layer = network.layers - 1; layer >= 0; --layer) {
    Value gx;
    for (int direction = 0; direction < network.directions; ++direction) {
      const int part = layer * network.directions + direction;
      const AttrValue columns = IndexBuilder()
                                    .Slice({}, {}, {})
                                    .Slice(direction * hidden, (direction + 1) * hidden, {})
                                    .Build();
      const Value gy_part =
          network.directions == 1 ? gy : c.Apply("getitem", {gy}, {{"index", columns}});
      const PartGrads grads = sequences::RunBack(
          network, direction == 1, stack.parts()[part], gy_part, stack.StateOf(gy_at + 1, part),
          network.has_cell() ? stack.StateOf(gy_at + 2, part) : Value());
      hs[part] = grads.h;
      cs[part] = grads.c;
      gx = gx.absent() ? grads.x : gx + grads.x;
      for (int kind = 0; kind < kRnnWeights; ++kind) {
        for (int gate = 0; gate < network.gates(); ++gate) {
          c.SetOutput(network.Position(part, static_cast<RnnWeight>(kind), gate),
                      sequences::Rows(grads.weights[kind], gate * hidden, (gate + 1) * hidden));
        }
      }
    }
    gy = gx;
  }
  c.SetOutput(kX, gy);
  c.SetOutput(kHx, c.Apply("stack", hs));
  if (network.has_cell()) c.SetOutput(kHx + 1, c.Apply("stack", cs));
}

void RnnGradient(GradContext& g) {
  std::vector<Value> arrays;
  arrays.reserve(g.num_inputs() + g.num_outputs());
  for (int i = 0; i < g.num_inputs(); ++i) arrays.push_back(g.input(i));
  for (int i = 0; i < g.num_outputs(); ++i) {
    const ArraySpec& spec = g.output_spec(i);
    arrays.push_back(!g.output_grad(i).absent() ? g.output_grad(i)
                                                : sequences::Zeros(g, spec.dtype, spec.shape));
  }
  const Value first = g.Apply(
      "rnn_grad", arrays,
      {{"rows", g.attr(0)}, {"layers", g.attr(1)}, {"directions", g.attr(2)}, {"mode", g.attr(3)}});
  for (int i = 0; i < g.num_inputs(); ++i) {
    if (g.needs_grad(i)) g.SetInputGrad(i, Value(&g, first.id() + i));
  }
}

OpDef& WithNetwork(OpDef& op) {
  return op.Attr("rows", AttrType::kInts)
      .Attr("layers", AttrType::kInt, 1)
      .Attr("directions", AttrType::kInt, 1)
      .Choice("mode", {"lstm", "gru", "tanh", "relu"}, 0);
}

}  // namespace

void RegisterSequences(OpRegistry& r) {
  WithNetwork(
      r.Add("rnn")
          .Doc("A stack of recurrent layers over packed sequences, sorted with the longest first: "
               "arrays are x (rows of all steps, I), hx (P, N, C) for P layers times directions, "
               "for LSTMs cx (P, N, C), then for each of the P: weights for x (C, I) of each gate, "
               "weights for h (C, C), biases for x and biases for h (C,). All of one float dtype; "
               "`rows`: of each step. Gives y (rows of all steps, directions * C), hy and, for "
               "LSTMs, cy. Gates are i, f, a, o of an LSTM, r, z and the candidate of a GRU.")
          .Inputs({"arrays..."})
          .Outputs({"results..."}))
      .Compose(RnnRule, RnnCompose)
      .Saves({"arrays"})
      .Gradient(RnnGradient);
  WithNetwork(r.Add("rnn_grad")
                  .Doc("Gradients of rnn's arrays, from these and then those of its results.")
                  .Inputs({"arrays..."})
                  .Outputs({"grads..."}))
      .Compose(RnnGradRule, RnnGradCompose)
      .Internal();
}

}  // namespace chx
