// Steps of optimizers and changes of gradients before them. One command covers all parameters. The
// formulas are in server/kernels/update_rules.h.
#include "absl/strings/str_cat.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"
#include "ops/op_context.h"

namespace chx {
namespace {

// Floats; at each place of the lists one shape, and the dtype of what is written. What is only read
// is cast to it.
absl::Status ListsRule(InferContext& c) {
  const OpDef& op = c.op();
  const int count = c.num_inputs();
  const int length = count / static_cast<int>(op.inputs.size());
  for (int i = 0; i < count; ++i) {
    const ArraySpec& spec = c.input(i);
    const ArraySpec& first = c.input(i % length);
    const auto label = [&](int operand) {
      return absl::StrCat(op.inputs[operand / length].name, "[", operand % length, "]");
    };
    if (!IsFloat(spec.dtype)) {
      return DtypeError("[", op.name, "] expects float arrays, got ", label(i), " ",
                        spec.ToString());
    }
    const bool fits = spec.dtype == first.dtype || !op.IsWritten(i, count);
    if (spec.shape != first.shape || !fits) {
      return MakeError(spec.shape != first.shape ? ErrorKind::kDimension : ErrorKind::kDtype,
                       absl::StrCat("[", op.name, "] expects arrays alike at each place of its ",
                                    "lists, got ", label(i % length), " ", first.ToString(),
                                    " and ", label(i), " ", spec.ToString()));
    }
    c.CastInput(i, first.dtype);
  }
  return absl::OkStatus();
}

// params (V, ...), gradients of rows (indices' shape, ...) of their dtype, and indices.
absl::Status UpdateRowsRule(InferContext& c) {
  const int length = c.num_inputs() / 3;
  for (int i = 0; i < length; ++i) {
    const ArraySpec& param = c.input(i);
    const ArraySpec& grad = c.input(length + i);
    const ArraySpec& indices = c.input(2 * length + i);
    if (!IsFloat(param.dtype) || grad.dtype != param.dtype || !IsInt(indices.dtype)) {
      return DtypeError("[", c.name(), "] expects float arrays of one dtype and integer indices, ",
                        "got ", param.ToString(), ", ", grad.ToString(), " and ",
                        indices.ToString());
    }
    bool fits = param.ndim() > 0 && grad.ndim() == indices.ndim() + param.ndim() - 1;
    fits = fits && (param.shape[0] > 0 || indices.size() == 0);
    for (int d = 0; fits && d < grad.ndim(); ++d) {
      const int of_row = d - indices.ndim();
      fits = grad.shape[d] == (of_row < 0 ? indices.shape[d] : param.shape[1 + of_row]);
    }
    if (!fits) {
      return DimensionError("[", c.name(), "] expects gradients of rows of ",
                            param.shape.ToString(), " by indices ", indices.shape.ToString(),
                            ", got ", grad.shape.ToString());
    }
    c.CastInput(2 * length + i, Dtype::kInt64);
  }
  return absl::OkStatus();
}

void UpdateRowsCompose(ComposeContext& c) {
  const int length = c.num_inputs() / 3;
  std::vector<Value> lists;
  lists.reserve(2 * static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) lists.push_back(c.input(i));
  for (int i = 0; i < length; ++i) {
    Ints shape;
    for (const int64_t d : c.input(i).shape()) shape.push_back(d);
    lists.push_back(c.Apply("take_grad", {c.input(length + i), c.input(2 * length + i)},
                            {{"shape", AttrValue(shape)}, {"axis", 0}}));
  }
  c.Apply("sgd_update", lists, {{"lr", c.attr(0)}});
}

// As x, but not float16, whose squares overflow, nor bfloat16, of which few digits would be left.
Value Wide(ComposeContext& c, Value x) {
  return IsNarrowFloat(x.dtype()) ? c.Apply("astype", {x}, {{"dtype", Dtype::kFloat32}}) : x;
}

Value SumOfSquares(ComposeContext& c, Value x) {
  const Value wide = Wide(c, x);
  return c.Apply("sum", {wide * wide});
}

void ClippingCompose(ComposeContext& c) {
  Value sum = SumOfSquares(c, c.input(0));
  for (int i = 1; i < c.num_inputs(); ++i) sum = sum + SumOfSquares(c, c.input(i));
  const Value norm = c.Apply("sqrt", {sum});
  const Value rate = c.Apply("minimum", {c.attr(0).AsFloat() / norm, 1.0});
  for (int i = 0; i < c.num_inputs(); ++i) c.Apply("multiply_", {c.input(i), rate});
}

void LarsCompose(ComposeContext& c) {
  const double decay = c.attr(1).AsFloat();
  const int length = c.num_inputs() / 2;
  for (int i = 0; i < length; ++i) {
    const Value g = c.input(i);
    const Value p = c.input(length + i);
    const Value p_norm = c.Apply("sqrt", {SumOfSquares(c, p)});
    const Value g_norm = c.Apply("sqrt", {SumOfSquares(c, g)});
    const Value local = p_norm / (p_norm * decay + g_norm + c.attr(2).AsFloat());
    const Value large = c.Apply("greater", {p_norm, c.attr(0).AsFloat()});
    const Value rate = c.Apply("where", {large, local, 1.0});
    c.Apply("add_", {g, p * decay});
    c.Apply("multiply_", {g, rate});
  }
}

void AllFiniteCompose(ComposeContext& c) {
  Value all = c.Apply("all", {c.Apply("isfinite", {c.input(0)})});
  for (int i = 1; i < c.num_inputs(); ++i) {
    all = c.Apply("logical_and", {all, c.Apply("all", {c.Apply("isfinite", {c.input(i)})})});
  }
  c.SetOutput(0, all);
}

// A float unless its default is something else.
struct Attribute {
  const char* name;
  AttrValue default_value = AttrValue();  // none: required
  bool optional = false;                  // may be absent: then it has no effect
};

OpDef& AddRule(OpRegistry& r, const char* name, const char* doc, std::vector<std::string> lists,
               std::vector<std::string> written, std::vector<Attribute> attrs) {
  std::vector<std::string> inputs = lists;
  for (std::string& list : inputs) list += "...";
  OpDef& op = r.Add(name).Doc(doc).Inputs(std::move(inputs));
  for (Attribute& attr : attrs) {
    if (attr.optional) {
      op.Attr(attr.name, AttrType::kFloat, AttrValue());
    } else if (!attr.default_value.has_value()) {
      op.Attr(attr.name, AttrType::kFloat);
    } else {
      const AttrType type = attr.default_value.type();
      op.Attr(attr.name, type, std::move(attr.default_value));
    }
  }
  return op.Infer(ListsRule).InPlace().Writes(std::move(written)).Module("optimizers");
}

}  // namespace

void RegisterOptimizers(OpRegistry& r) {
  AddRule(r, "sgd_update", "params -= lr * grads.", {"params", "grads"}, {"params"}, {{"lr"}});
  // Plans use it instead of a gradient that nothing else sees (server/programs/row_updates.h).
  AddRule(r, "sgd_update_rows",
          "sgd_update, where each gradient is zeros with rows of `grads` added at `indices`.",
          {"params", "grads", "indices"}, {"params"}, {{"lr"}})
      .Compose(UpdateRowsRule, UpdateRowsCompose)
      .NoGradient()
      .Internal();
  AddRule(r, "momentum_sgd_update", "v = momentum * v - lr * grads; params += v.",
          {"params", "grads", "v"}, {"params", "v"}, {{"lr"}, {"momentum", 0.9}});
  AddRule(r, "corrected_momentum_sgd_update", "v = momentum * v - grads; params += lr * v.",
          {"params", "grads", "v"}, {"params", "v"}, {{"lr"}, {"momentum", 0.9}});
  AddRule(r, "nesterov_ag_update",
          "Nesterov's accelerated gradient: momentum_sgd_update, seen ahead.",
          {"params", "grads", "v"}, {"params", "v"}, {{"lr"}, {"momentum", 0.9}});
  AddRule(r, "ada_grad_update", "h += grads ** 2; params -= lr * grads / (sqrt(h) + eps).",
          {"params", "grads", "h"}, {"params", "h"}, {{"lr"}, {"eps", 1e-8}});
  AddRule(r, "ada_delta_update",
          "AdaDelta; msg and msdx are running means of squared gradients and steps.",
          {"params", "grads", "msg", "msdx"}, {"params", "msg", "msdx"},
          {{"rho", 0.95}, {"eps", 1e-6}});
  const auto adam = [&r](const char* name, const char* doc, std::vector<std::string> states) {
    std::vector<std::string> lists = {"params", "grads"};
    lists.insert(lists.end(), states.begin(), states.end());
    states.push_back("params");
    AddRule(r, name, doc, std::move(lists), std::move(states),
            {{"step"},
             {"beta1", 0.9},
             {"beta2", 0.999},
             {"eps", 1e-8},
             {"eta", 1.0},
             {"weight_decay_rate", 0.0},
             {"lower", AttrValue(), true},
             {"upper", AttrValue(), true}});
  };
  adam(
      "adam_update",
      "Adam with the bias-corrected rate `step`: m and v are running means of the gradients and of "
      "their squares. The rate of each element is clipped to [lower, upper] (AdaBound).",
      {"m", "v"});
  adam("amsgrad_update", "adam_update with the largest v so far, which is in vhat.",
       {"m", "v", "vhat"});
  AddRule(r, "rmsprop_update",
          "RMSprop: divides by the root of ms, a running mean of squared gradients, plus eps.",
          {"params", "grads", "ms"}, {"params", "ms"},
          {{"lr"}, {"alpha", 0.99}, {"eps", 1e-8}, {"eps_inside_sqrt", false}});
  AddRule(r, "rmsprop_graves_update",
          "Graves' RMSprop: n and g are running means of squared gradients and of gradients, delta "
          "is the last step.",
          {"params", "grads", "n", "g", "delta"}, {"params", "n", "g", "delta"},
          {{"lr"}, {"alpha", 0.95}, {"momentum", 0.9}, {"eps", 1e-4}});
  AddRule(r, "smorms3_update",
          "SMORMS3: mem, g and g2 are the memory and the running means of gradients and squares.",
          {"params", "grads", "mem", "g", "g2"}, {"params", "mem", "g", "g2"},
          {{"lr"}, {"eps", 1e-16}});
  AddRule(r, "msvag_update",
          "M-SVAG: m and v as in adam_update; beta_power is beta to the number of steps.",
          {"params", "grads", "m", "v"}, {"params", "m", "v"},
          {{"lr"}, {"beta"}, {"eta"}, {"weight_decay_rate"}, {"beta_power"}});
  AddRule(r, "weight_decay", "grads += rate * params.", {"grads", "params"}, {"grads"}, {{"rate"}});
  AddRule(r, "lasso", "grads += rate * sign(params).", {"grads", "params"}, {"grads"}, {{"rate"}});
  AddRule(r, "gradient_hard_clipping", "Clips every gradient to [lower, upper].", {"grads"},
          {"grads"}, {{"lower"}, {"upper"}});
  AddRule(r, "moving_average", "averages += (1 - decay) * (params - averages).",
          {"averages", "params"}, {"averages"}, {{"decay"}});
  AddRule(r, "gradient_clipping",
          "Scales all gradients so that their common L2 norm is at most threshold.", {"grads"},
          {"grads"}, {{"threshold"}})
      .Compose(ListsRule, ClippingCompose)
      .NoGradient();
  AddRule(
      r, "gradient_lars",
      "Layer-wise adaptive rate scaling: adds weight_decay * params and scales each gradient by "
      "|param| / (eps + |grad| + weight_decay * |param|) where |param| > threshold.",
      {"grads", "params"}, {"grads"}, {{"threshold", 1e-2}, {"weight_decay", 0.0}, {"eps", 1e-9}})
      .Compose(ListsRule, LarsCompose)
      .NoGradient();
  r.Add("all_finite")
      .Doc("Whether no array has an infinity or NaN.")
      .Inputs({"arrays..."})
      .Outputs({"y"})
      .Compose([](InferContext& c) { return c.AddOutput(Dtype::kBool, {}); }, AllFiniteCompose)
      .NoGradient()
      .Module("optimizers");
}

}  // namespace chx
