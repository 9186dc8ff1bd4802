// Scaled dot-product attention (Vaswani et al., "Attention is all you need", 2017). The
// compositions here have the scores of kRowsAtOnce positions at a time; kernels have fewer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/defs/common/expressions.h"
#include "ops/defs/common/matrices.h"
#include "ops/defs/register_groups.h"
#include "ops/inference_rules.h"

namespace chx {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kRowsAtOnce = 512;

// The first attributes.
struct Options {
  bool causal;
  AttrValue scale;
  bool grouped;
  double dropout;
};
Options OptionsOf(absl::Span<const AttrValue> attrs) {
  return {attrs[0].AsBool(), attrs[1], attrs[2].AsBool(), attrs[3].AsFloat()};
}

absl::Status CheckOperand(const InferContext& c, int i) {
  const ArraySpec& q = c.input(0);
  const ArraySpec& x = c.input(i);
  const std::string& name = c.op().inputs[i].name;
  if (!IsFloat(x.dtype) || x.dtype != q.dtype) {
    return DtypeError("[", c.name(), "] expects floats of one dtype, got ", DtypeName(x.dtype),
                      " as '", name, "'");
  }
  if (x.ndim() < 2 || x.ndim() != q.ndim()) {
    return DimensionError("[", c.name(), "] expects arrays (..., length, features) of as many ",
                          "dimensions each, got ", x.shape.ToString(), " as '", name, "'");
  }
  return absl::OkStatus();
}

// query (..., L, E), key (..., S, E), value (..., S, Ev). Grouped: key and value have a divisor of
// query's heads, which are the dimension before L.
absl::Status CheckShapes(const InferContext& c, bool grouped) {
  for (int i = 0; i < 3; ++i) CHX_RETURN_IF_ERROR(CheckOperand(c, i));
  const Shape& q = c.input(0).shape;
  const Shape& k = c.input(1).shape;
  const Shape& v = c.input(2).shape;
  const int n = q.size();
  if (grouped && n == kMaxNdim) {
    return DimensionError("[", c.name(), "] expects less than ", kMaxNdim,
                          " dimensions with enable_gqa, got ", q.ToString());
  }
  bool fits = k[n - 1] == q[n - 1] && v[n - 2] == k[n - 2] && (!grouped || n >= 3);
  for (int d = 0; fits && d < n - 2; ++d) {
    const bool heads = grouped && d == n - 3;
    fits = k[d] == v[d] && (heads ? k[d] > 0 && q[d] % k[d] == 0 : k[d] == q[d]);
  }
  if (fits) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects query (..., L, E), key (..., S, E) and value ",
                        "(..., S, Ev)", grouped ? " whose heads divide query's" : "", ", got ",
                        q.ToString(), ", ", k.ToString(), " and ", v.ToString());
}

Shape RowsShape(const Shape& q) { return Shape(q.span().first(q.size() - 1)); }
Shape WithLast(const Shape& q, int64_t last) {
  Shape shape = RowsShape(q);
  shape.push_back(last);
  return shape;
}
// The scores' shape, (..., L, S).
Shape ScoresShape(const Shape& q, const Shape& k) { return WithLast(q, k[k.size() - 2]); }

absl::Status CheckMask(const InferContext& c, int i) {
  if (!c.has_array(i)) return absl::OkStatus();
  const ArraySpec& mask = c.input(i);
  if (!IsFloat(mask.dtype) && !IsBool(mask.dtype)) {
    return DtypeError("[", c.name(), "] expects a mask of bool or floats, got ",
                      DtypeName(mask.dtype));
  }
  const Shape scores = ScoresShape(c.input(0).shape, c.input(1).shape);
  bool fits = mask.ndim() <= scores.size();
  for (int d = 0; fits && d < mask.ndim(); ++d) {
    const int64_t size = mask.shape[d];
    fits = size == 1 || size == scores[scores.size() - mask.ndim() + d];
  }
  if (fits) return absl::OkStatus();
  return DimensionError("[", c.name(), "] expects a mask that broadcasts to the scores' shape ",
                        scores.ToString(), ", got ", mask.shape.ToString());
}

// Of dropout: input i, if the probability is not 0.
absl::Status CheckKey(const InferContext& c, int i) {
  const double p = c.attr(3).AsFloat();
  if (!(p >= 0 && p < 1)) {
    return ValueError("[", c.name(), "] expects dropout_p in [0, 1), got ", p);
  }
  if (p == 0) return absl::OkStatus();
  const bool fits =
      c.has_array(i) && c.input(i).dtype == Dtype::kFloat64 && NumElements(c.input(i).shape) == 1;
  if (fits) return absl::OkStatus();
  return DtypeError("[", c.name(), "] expects a key of one float64 for its dropout");
}

Shape ResultShape(const Shape& q, const Shape& v) { return WithLast(q, v.back()); }

// query, key, value, attn_mask?; is_causal, scale, enable_gqa.
absl::Status AttentionRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckShapes(c, c.attr(2).AsBool()));
  CHX_RETURN_IF_ERROR(CheckMask(c, 3));
  return c.AddOutput(c.input(0).dtype, ResultShape(c.input(0).shape, c.input(2).shape));
}
// query, key, value, attn_mask?, dropout_key?; is_causal, scale, enable_gqa, dropout_p.
absl::Status DropoutRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckKey(c, 4));
  return AttentionRule(c);
}
absl::Status ForwardRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(DropoutRule(c));
  return c.AddOutput(WideDtype(c.input(0).dtype), RowsShape(c.input(0).shape));
}

// query, key, value, y, lse, gy, attn_mask?, dropout_key?; is_causal, scale, enable_gqa, dropout_p,
// mask_grad.
absl::Status GradRule(InferContext& c) {
  CHX_RETURN_IF_ERROR(CheckShapes(c, c.attr(2).AsBool()));
  CHX_RETURN_IF_ERROR(CheckMask(c, 6));
  CHX_RETURN_IF_ERROR(CheckKey(c, 7));
  const Shape result = ResultShape(c.input(0).shape, c.input(2).shape);
  const Shape rows = RowsShape(c.input(0).shape);
  for (int i = 3; i < 6; ++i) {
    const Shape& expected = i == 4 ? rows : result;
    if (c.input(i).shape == expected && IsFloat(c.input(i).dtype)) continue;
    return DimensionError("[", c.name(), "] expects floats of shape ", expected.ToString(), " as '",
                          c.op().inputs[i].name, "', got ", c.input(i).ToString());
  }
  for (int i = 0; i < 3; ++i) {
    CHX_RETURN_IF_ERROR(c.AddOutput(c.input(i).dtype, c.input(i).shape));
  }
  if (!c.attr(4).AsBool()) return absl::OkStatus();
  if (!c.has_array(6) || !IsFloat(c.input(6).dtype)) {
    return DtypeError("[", c.name(), "] expects a mask of floats for its gradient");
  }
  return c.AddOutput(WideDtype(c.input(0).dtype), ScoresShape(c.input(0).shape, c.input(1).shape));
}

// Positions [begin, end) of query's.
struct RowRange {
  int64_t begin;
  int64_t end;

  // Of (..., length, columns), or of what broadcasts to that.
  Value Of(Value x, int64_t length) const {
    const int axis = x.ndim() - 2;
    const bool all = begin == 0 && end == length;
    return all || axis < 0 || x.shape()[axis] != length ? x : SliceAxis(x, axis, begin, end);
  }
};

// In parts of which the scores are there at once.
std::vector<RowRange> PartsOf(int64_t length) {
  std::vector<RowRange> parts;
  for (int64_t begin = 0; parts.empty() || begin < length; begin += kRowsAtOnce) {
    parts.push_back({begin, std::min(length, begin + kRowsAtOnce)});
  }
  return parts;
}

// Query, key and value in a float of 32 bits or more, all with query's heads.
class Operands {
 public:
  Operands(OpContext& c, const Options& options, Value query, Value key, Value value)
      : c(c),
        options(options),
        dtype(WideDtype(query.dtype())),
        q(Cast(query, dtype)),
        k(Spread(key)),
        v(Spread(value)),
        scale_(1) {
    const double features = static_cast<double>(q.shape().back());
    if (features > 0) scale_ = 1 / std::sqrt(features);
    if (options.scale.has_value()) scale_ = options.scale.AsFloat();
  }

  double scale() const { return scale_; }
  int64_t length() const { return q.shape()[q.ndim() - 2]; }
  // The gradient of key or value of some shape, from that of k or v.
  Value Gather(Value grad, const Shape& shape) const {
    const int64_t groups = Groups(shape);
    if (groups == 1) return grad;
    return matrices::Sum(Reshape(grad, WithGroups(shape, groups)), {heads() + 1});
  }

  OpContext& c;
  const Options options;
  const Dtype dtype;
  const Value q;
  const Value k;
  const Value v;

 private:
  int heads() const { return q.ndim() - 3; }
  int64_t Groups(const Shape& shape) const {
    return options.grouped ? q.shape()[heads()] / shape[heads()] : 1;
  }
  // (..., heads, groups, length, features)
  Shape WithGroups(const Shape& shape, int64_t groups) const {
    Shape wide;
    for (int d = 0; d < shape.size(); ++d) {
      wide.push_back(shape[d]);
      if (d == heads()) wide.push_back(groups);
    }
    return wide;
  }
  // Each head for as many of query's.
  Value Spread(Value x) const {
    x = Cast(x, dtype);
    const int64_t groups = Groups(x.shape());
    if (groups == 1) return x;
    const Value wide =
        BroadcastTo(Reshape(x, WithGroups(x.shape(), 1)), WithGroups(x.shape(), groups));
    Shape shape = x.shape();
    shape[heads()] *= groups;
    return Reshape(wide, shape);
  }

  double scale_;
};

// What the composition and the gradient share of some rows.
class Attention {
 public:
  Attention(const Operands& x, RowRange rows, Value mask, Value dropout_key)
      : x_(x), rows_(rows), q_(rows.Of(x.q, x.length())) {
    OpContext& c = x.c;
    Value scores = matrices::MatMul(q_, matrices::T(x.k)) * x.scale();
    if (mask.is_array()) mask = rows.Of(mask, x.length());
    if (mask.is_array() && IsBool(mask.dtype())) {
      scores = Where(mask, scores, -kInf);
    } else if (mask.is_array()) {
      scores = scores + Cast(mask, x.dtype);
    }
    if (x.options.causal) scores = Where(Causal(scores.shape().back()), scores, -kInf);
    if (scores.shape().back() == 0) {
      weights_ = kept_ = scores;
      return;
    }
    // A row without any score that counts has weights of zero.
    dead_ = c.Apply("equal",
                    {c.Apply("amax", {scores}, {{"axis", Last()}, {"keepdims", true}}), -kInf});
    scores_ = Where(dead_, 0.0, scores);
    weights_ = Where(dead_, 0.0, c.Apply("softmax", {scores_}, {{"axis", Last()}}));
    kept_ = weights_;
    if (x.options.dropout == 0) return;
    const Value drawn = c.Apply("uniform_by_key", {dropout_key},
                                {{"shape", ShapeAttr(ScoresShape(x.q.shape(), x.k.shape()))},
                                 {"begin", rows.begin},
                                 {"end", rows.end}});
    factors_ = Cast(c.Apply("greater_equal", {drawn, x.options.dropout}), x.dtype) *
               (1 / (1 - x.options.dropout));
    kept_ = weights_ * factors_;
  }

  Value Result() const { return matrices::MatMul(kept_, x_.v); }

  // Of each row: the logarithm of its sum of exponentials, infinite if that is zero.
  Value LogSumExp() const {
    const Shape shape = RowsShape(q_.shape());
    if (weights_.shape().back() == 0) {
      return x_.c.Apply(
          "full", {},
          {{"shape", ShapeAttr(shape)}, {"fill_value", Scalar(kInf)}, {"dtype", x_.dtype}});
    }
    const Value sums = x_.c.Apply("logsumexp", {scores_}, {{"axis", Last()}, {"keepdims", true}});
    return Reshape(Where(dead_, kInf, sums), shape);
  }

  // From the result's, for these rows: of query's, of k and v, and of what is added to the scores.
  void Gradients(Value gy, Value* gq, Value* gk, Value* gv, Value* gscores) const {
    gy = Cast(rows_.Of(gy, x_.length()), x_.dtype);
    Value gweights = matrices::MatMul(gy, matrices::T(x_.v));
    if (x_.options.dropout != 0) gweights = gweights * factors_;
    const Value products = weights_ * gweights;
    const Value sums = x_.c.Apply("sum", {products}, {{"axis", Last()}, {"keepdims", true}});
    *gscores = products - weights_ * sums;
    const Value scaled = *gscores * x_.scale();
    *gq = matrices::MatMul(scaled, x_.k);
    *gk = matrices::MatMul(matrices::T(scaled), q_);
    *gv = matrices::MatMul(matrices::T(kept_), gy);
  }

 private:
  static AttrValue Last() { return AttrValue(Ints{-1}); }

  // Whether position i may see position j of `keys`: j <= i.
  Value Causal(int64_t keys) const {
    OpContext& c = x_.c;
    const Value positions =
        c.Apply("arange", {}, {{"start", Scalar(rows_.begin)}, {"stop", Scalar(rows_.end)}});
    return c.Apply("greater_equal",
                   {ExpandDims(positions, -1), c.Apply("arange", {}, {{"start", Scalar(keys)}})});
  }

  const Operands& x_;
  const RowRange rows_;
  const Value q_;
  Value dead_;
  Value scores_;
  Value weights_;
  Value factors_;  // of weights, by dropout
  Value kept_;     // weights times these
};

Value Joined(OpContext& c, const std::vector<Value>& parts, int axis) {
  if (parts.size() == 1) return parts[0];
  return c.Apply("concatenate", parts, {{"axis", int64_t{axis}}});
}

void ForwardCompose(ComposeContext& c) {
  const Operands x(c, OptionsOf(c.attrs()), c.input(0), c.input(1), c.input(2));
  std::vector<Value> results;
  std::vector<Value> sums;
  for (const RowRange& rows : PartsOf(x.length())) {
    const Attention part(x, rows, OptionalInput(c, 3), OptionalInput(c, 4));
    results.push_back(Cast(part.Result(), c.input(0).dtype()));
    sums.push_back(part.LogSumExp());
  }
  c.SetOutput(0, Joined(c, results, x.q.ndim() - 2));
  c.SetOutput(1, Joined(c, sums, x.q.ndim() - 2));
}

// The weights are computed again from query and key, which lets these gradients be differentiated
// too: they do not use y and lse.
void GradCompose(ComposeContext& c) {
  const Operands x(c, OptionsOf(c.attrs()), c.input(0), c.input(1), c.input(2));
  std::vector<Value> gqs;
  std::vector<Value> gscores;
  Value gk;
  Value gv;
  for (const RowRange& rows : PartsOf(x.length())) {
    const Attention part(x, rows, OptionalInput(c, 6), OptionalInput(c, 7));
    Value grads[4];
    part.Gradients(c.input(5), &grads[0], &grads[1], &grads[2], &grads[3]);
    gqs.push_back(Cast(grads[0], c.input(0).dtype()));
    gk = gqs.size() == 1 ? grads[1] : gk + grads[1];
    gv = gqs.size() == 1 ? grads[2] : gv + grads[2];
    if (c.attr(4).AsBool()) gscores.push_back(grads[3]);
  }
  c.SetOutput(0, Joined(c, gqs, x.q.ndim() - 2));
  c.SetOutput(1, Cast(x.Gather(gk, c.input(1).shape()), c.input(1).dtype()));
  c.SetOutput(2, Cast(x.Gather(gv, c.input(2).shape()), c.input(2).dtype()));
  if (c.attr(4).AsBool()) c.SetOutput(3, Joined(c, gscores, x.q.ndim() - 2));
}

// lse, which is there for the gradient, counts as constant.
void ForwardGradient(GradContext& g) {
  const ArraySpec& y = g.output_spec(0);
  Value gy = g.output_grad(0);
  if (gy.absent()) {
    gy = g.Apply("zeros", {}, {{"shape", ShapeAttr(y.shape)}, {"dtype", y.dtype}});
  }
  const bool masked = g.num_inputs() > 3 && g.input_is_array(3);
  const bool mask_grad = masked && g.needs_grad(3);
  const bool drops = g.num_inputs() > 4 && g.input_is_array(4);
  const Value gq = g.Apply("attention_grad",
                           {g.input(0), g.input(1), g.input(2), g.output(0), g.output(1), gy,
                            masked ? g.input(3) : Value(), drops ? g.input(4) : Value()},
                           {{"is_causal", g.attr(0)},
                            {"scale", g.attr(1)},
                            {"enable_gqa", g.attr(2)},
                            {"dropout_p", g.attr(3)},
                            {"mask_grad", mask_grad}});
  for (int i = 0; i < (mask_grad ? 4 : 3); ++i) {
    if (g.needs_grad(i)) g.SetInputGrad(i, Value(&g, gq.id() + i));
  }
}

OpDef& WithOptions(OpDef& op) {
  return op.Attr("is_causal", AttrType::kBool, false)
      .Attr("scale", AttrType::kFloat, AttrValue())
      .Attr("enable_gqa", AttrType::kBool, false);
}
OpDef& WithDropout(OpDef& op) { return WithOptions(op).Attr("dropout_p", AttrType::kFloat, 0.0); }

}  // namespace

void RegisterAttention(OpRegistry& r) {
  WithOptions(r.Add("scaled_dot_product_attention")
                  .Doc("softmax(query key^T * scale + attn_mask) value, for query (..., L, E), key "
                       "(..., S, E) and value (..., S, Ev). A bool attn_mask tells which scores "
                       "count. is_causal: position i of L sees the first i + 1 of S. scale: "
                       "1 / sqrt(E) by default. enable_gqa: key and value have fewer heads (the "
                       "dimension before L), each for several of query's. A row in which no score "
                       "counts gives 0.")
                  .Inputs({"query", "key", "value", "attn_mask?"})
                  .Outputs({"y"}))
      .Compose(AttentionRule, [](ComposeContext& c) {
        c.SetOutput(
            0,
            c.Apply("attention_forward",
                    {c.input(0), c.input(1), c.input(2), OptionalInput(c, 3), Value()},
                    {{"is_causal", c.attr(0)}, {"scale", c.attr(1)}, {"enable_gqa", c.attr(2)}}));
      });
  WithDropout(r.Add("attention_with_dropout")
                  .Doc("scaled_dot_product_attention of which each weight is zero with probability "
                       "dropout_p, and 1 / (1 - dropout_p) times as large else: as uniform_by_key "
                       "draws for the scores' shape (..., L, S) from dropout_key, one float64.")
                  .Inputs({"query", "key", "value", "attn_mask?", "dropout_key?"})
                  .Outputs({"y"}))
      .ConstantInputs({"dropout_key"})
      .Module("random")
      .Compose(DropoutRule, [](ComposeContext& c) {
        c.SetOutput(0, c.Apply("attention_forward",
                               {c.input(0), c.input(1), c.input(2), OptionalInput(c, 3),
                                OptionalInput(c, 4)},
                               {{"is_causal", c.attr(0)},
                                {"scale", c.attr(1)},
                                {"enable_gqa", c.attr(2)},
                                {"dropout_p", c.attr(3)}}));
      });
  WithDropout(r.Add("attention_forward")
                  .Doc("attention_with_dropout's y, and for each row the logarithm of its sum of "
                       "exponentials.")
                  .Inputs({"query", "key", "value", "attn_mask?", "dropout_key?"})
                  .Outputs({"y", "lse"}))
      .ConstantInputs({"dropout_key"})
      .Compose(ForwardRule, ForwardCompose)
      .Internal()
      .Saves({"query", "key", "value", "attn_mask", "dropout_key", "y", "lse"})
      .Gradient(ForwardGradient);
  WithDropout(
      r.Add("attention_grad")
          .Doc("Gradients of attention_forward's query, key and value and, if mask_grad, of "
               "the scores, from that of y.")
          .Inputs({"query", "key", "value", "y", "lse", "gy", "attn_mask?", "dropout_key?"})
          .Outputs({"grads..."}))
      .Attr("mask_grad", AttrType::kBool, false)
      .ConstantInputs({"y", "lse", "dropout_key"})
      .Compose(GradRule, GradCompose)
      .Internal();
}

}  // namespace chx
