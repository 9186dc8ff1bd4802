// The steps of an LSTM's layer in one direction: a composition, for which a backend may have a
// kernel, and its gradient, which can be differentiated again. What x gives for the gates is a
// product for all steps, outside.
#include "ops/defs/common/expressions.h"
#include "ops/defs/register_groups.h"
#include "ops/defs/sequences_layer.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

using sequences::Join;
using sequences::Part;
using sequences::StepGrads;

absl::Status CheckLstmInput(const InferContext& c, int i, const Shape& shape) {
  if (c.input(i).shape == shape && c.input(i).dtype == c.input(0).dtype) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects '", c.op().inputs[i].name, "' of ",
                        ArraySpec(c.input(0).dtype, shape).ToString(), ", got ",
                        c.input(i).ToString());
}

// from_x, hx, cx, weights, biases; rows, backwards.
absl::StatusOr<RnnNetwork> CheckLstm(const InferContext& c) {
  if (!IsFloat(c.input(0).dtype)) {
    return DtypeError("[", c.name(), "] expects floats, got ", DtypeName(c.input(0).dtype));
  }
  CHX_ASSIGN_OR_RETURN(const RnnNetwork network,
                       MakeLstmLayer(c.name(), c.input(0).shape, c.input(1).shape, c.attr(0)));
  const int64_t hidden = network.hidden;
  const Shape state = {network.batch, hidden};
  CHX_RETURN_IF_ERROR(CheckLstmInput(c, 0, {network.total_rows(), 4 * hidden}));
  CHX_RETURN_IF_ERROR(CheckLstmInput(c, 1, state));
  CHX_RETURN_IF_ERROR(CheckLstmInput(c, 2, state));
  CHX_RETURN_IF_ERROR(CheckLstmInput(c, 3, {4 * hidden, hidden}));
  CHX_RETURN_IF_ERROR(CheckLstmInput(c, 4, {4 * hidden}));
  return network;
}

absl::Status LstmLayerRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const RnnNetwork network, CheckLstm(c));
  const Dtype dtype = c.input(0).dtype;
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, {network.total_rows(), network.hidden}));
  for (int i = 1; i < 3; ++i) CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(i).shape));
  return absl::OkStatus();
}

absl::Status LstmForwardRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(LstmLayerRule(c));
  const Dtype dtype = c.input(0).dtype;
  const Shape rows = {c.input(0).shape[0], c.input(1).shape[1]};
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, c.input(0).shape));
  CHX_RETURN_IF_ERROR(c.AddOutput(dtype, rows));
  return c.AddOutput(dtype, rows);
}

// As above, then gates, hs, cs; gy, ghy, gcy.
absl::Status LstmGradRule(InferContext& c) {
  CHX_ASSIGN_OR_RETURN(const RnnNetwork network, CheckLstm(c));
  const Shape rows = {network.total_rows(), network.hidden};
  CHX_RETURN_IF_ERROR(CheckLstmInput(c, 5, c.input(0).shape));
  for (int i = 6; i < 9; ++i) CHX_RETURN_IF_ERROR(CheckLstmInput(c, i, rows));
  for (int i = 9; i < 11; ++i) CHX_RETURN_IF_ERROR(CheckLstmInput(c, i, c.input(1).shape));
  for (int i = 0; i < 5; ++i) {
    CHX_RETURN_IF_ERROR(c.AddOutput(c.input(0).dtype, c.input(i).shape));
  }
  return absl::OkStatus();
}

struct LstmRun {
  RnnNetwork network;
  bool backwards;
  Part part;
};

LstmRun RunLstmSteps(ComposeContext& c) {
  LstmRun run{MakeLstmLayer(c.op().name, c.input(0).shape(), c.input(1).shape(), c.attr(0))
                  .value_or(RnnNetwork()),
              c.attr(1).AsBool(),
              {}};
  run.part = sequences::RunSteps(run.network, run.backwards, c.input(0), c.input(3), c.input(4),
                                 c.input(1), c.input(2));
  return run;
}

void LstmForwardCompose(ComposeContext& c) {
  const LstmRun run = RunLstmSteps(c);
  const Part& part = run.part;
  c.SetOutput(0, part.y);
  c.SetOutput(1, part.final_h);
  c.SetOutput(2, part.final_c);
  if (part.cells.empty()) {
    c.SetOutput(3, c.input(0));
    c.SetOutput(4, part.y);
    c.SetOutput(5, part.y);
    return;
  }
  std::vector<Value> gates;
  std::vector<Value> hs;
  std::vector<Value> cs;
  for (const sequences::Cell& cell : part.cells) {
    gates.push_back(cell.from_x + cell.from_h);
    hs.push_back(cell.h);
    cs.push_back(cell.c);
  }
  c.SetOutput(3, Join(gates, 0));
  c.SetOutput(4, Join(hs, 0));
  c.SetOutput(5, Join(cs, 0));
}

// Does not use gates, hs and cs, which lets these gradients be differentiated too.
void LstmGradCompose(ComposeContext& c) {
  const LstmRun run = RunLstmSteps(c);
  const StepGrads grads = sequences::RunStepsBack(run.network, run.backwards, run.part, c.input(8),
                                                  c.input(9), c.input(10));
  c.SetOutput(0, grads.from_x);
  c.SetOutput(1, grads.h);
  c.SetOutput(2, grads.c);
  c.SetOutput(3, c.Apply("matmul", {c.Apply("transpose", {grads.from_h}), grads.before}));
  c.SetOutput(4, c.Apply("sum", {grads.from_h}, {{"axis", AttrValue(Ints{0})}}));
}

// gates, hs and cs, which are there for the gradient, count as constant.
void LstmForwardGradient(GradContext& g) {
  std::vector<Value> arrays;
  arrays.reserve(11);
  for (int i = 0; i < 5; ++i) arrays.push_back(g.input(i));
  for (int i = 3; i < 6; ++i) arrays.push_back(g.output(i));
  for (int i = 0; i < 3; ++i) {
    const ArraySpec& spec = g.output_spec(i);
    arrays.push_back(g.output_grad(i).absent() ? sequences::Zeros(g, spec.dtype, spec.shape)
                                               : g.output_grad(i));
  }
  const Value first =
      g.Apply("lstm_layer_grad", arrays, {{"rows", g.attr(0)}, {"backwards", g.attr(1)}});
  for (int i = 0; i < 5; ++i) {
    if (g.needs_grad(i)) g.SetInputGrad(i, Value(&g, first.id() + i));
  }
}

OpDef& WithSteps(OpDef& op) {
  return op.Attr("rows", AttrType::kInts).Attr("backwards", AttrType::kBool, false);
}

}  // namespace

void RegisterSequencesLstm(OpRegistry& r) {
  WithSteps(
      r.Add("lstm_layer")
          .Doc("The steps of an LSTM's layer over packed sequences, sorted with the longest first: "
               "from_x (rows of all steps, 4 C) is what x gives for the gates i, f, a, o; hx and "
               "cx (N, C); weights (4 C, C) and biases (4 C,) for h; `rows`: of each step; "
               "backwards: from the end of each sequence. All of one float dtype. Gives y (rows of "
               "all steps, C), hy and cy (N, C).")
          .Inputs({"from_x", "hx", "cx", "weights", "biases"})
          .Outputs({"y", "hy", "cy"}))
      .Compose(LstmLayerRule, [](ComposeContext& c) {
        const Value y = c.Apply("lstm_layer_forward",
                                {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4)},
                                {{"rows", c.attr(0)}, {"backwards", c.attr(1)}});
        for (int i = 0; i < 3; ++i) c.SetOutput(i, Value(&c, y.id() + i));
      });
  WithSteps(r.Add("lstm_layer_forward")
                .Doc("lstm_layer's results, and what its gradient needs: the gates' sums "
                     "(rows, 4 C), and h and c (rows, C) before each step.")
                .Inputs({"from_x", "hx", "cx", "weights", "biases"})
                .Outputs({"y", "hy", "cy", "gates", "hs", "cs"}))
      .Compose(LstmForwardRule, LstmForwardCompose)
      .Internal()
      .Saves({"from_x", "hx", "cx", "weights", "biases", "gates", "hs", "cs"})
      .Gradient(LstmForwardGradient);
  WithSteps(r.Add("lstm_layer_grad")
                .Doc("Gradients of lstm_layer's arrays, from those of y, hy and cy.")
                .Inputs({"from_x", "hx", "cx", "weights", "biases", "gates", "hs", "cs", "gy",
                         "ghy", "gcy"})
                .Outputs({"gfrom_x", "ghx", "gcx", "gweights", "gbiases"}))
      .ConstantInputs({"gates", "hs", "cs"})
      .Compose(LstmGradRule, LstmGradCompose)
      .Internal();
}

}  // namespace chx
