// Samples of what neural networks are made of.
#include "ops/testing/sample.h"

namespace chx::samples {
namespace {

// Of `rnn`: x of 3 features, states of 2 and weights for steps of 3, 2 and no rows; then, of
// `rnn_grad`, the gradients of its results.
Sample Rnn(const char* op, int mode, int64_t layers, int64_t directions, bool grads,
           Dtype dtype = Dtype::kFloat32) {
  const int64_t gates = mode == 0 ? 4 : mode == 1 ? 3 : 1;
  const ArraySpec state = F({layers * directions, 4, 2}, dtype);
  std::vector<Argument> arrays = {F({5, 3}, dtype), state};
  if (mode == 0) arrays.push_back(state);
  for (int64_t part = 0; part < layers * directions; ++part) {
    const int64_t width = part < directions ? 3 : 2 * directions;
    arrays.insert(arrays.end(), gates, F({2, width}, dtype));
    arrays.insert(arrays.end(), gates, F({2, 2}, dtype));
    arrays.insert(arrays.end(), 2 * gates, F({2}, dtype));
  }
  if (grads) {
    arrays.push_back(F({5, 2 * directions}, dtype));
    arrays.insert(arrays.end(), mode == 0 ? 2 : 1, state);
  }
  return {
      op,
      arrays,
      {{"rows", Dims({3, 2, 0})}, {"layers", layers}, {"directions", directions}, {"mode", mode}}};
}

// Of `lstm_layer`: states of 2 for steps of 3, 2 and no rows.
Sample LstmLayer(const char* op, Dtype dtype, bool backwards) {
  const ArraySpec rows = F({5, 2}, dtype);
  const ArraySpec state = F({4, 2}, dtype);
  std::vector<Argument> arrays = {F({5, 8}, dtype), state, state, F({8, 2}, dtype), F({8}, dtype)};
  if (absl::string_view(op) == "lstm_layer_grad") {
    arrays.insert(arrays.end(), {F({5, 8}, dtype), rows, rows, rows, state, state});
  }
  return {op, arrays, {{"rows", Dims({3, 2, 0})}, {"backwards", backwards}}};
}

}  // namespace

std::vector<Sample> NeuralNetworks() {
  const ArraySpec index = I({2, 3, 4, 3});
  return {
      {"conv", {F({2, 3, 8, 7}), F({4, 3, 3, 2}), F({4})}, {}},
      {"conv",
       {F({2, 3, 8, 7}), F({4, 3, 3, 2}), Argument()},
       {{"stride", Dims({2, 3})}, {"pad", Dims({1})}, {"cover_all", true}}},
      {"conv", {F({2, 3, 9}, Dtype::kFloat16), F({4, 3, 5}), F({4})}, {{"stride", Dims({2})}}},
      {"grouped_conv", {F({2, 4, 8, 7}), F({6, 2, 3, 2}), F({6})}, {{"groups", 2}}},
      {"grouped_conv",
       {F({2, 3, 9}, Dtype::kFloat16), F({6, 1, 3}), Argument()},
       {{"stride", Dims({2})}, {"pad", Dims({1})}, {"dilate", Dims({2})}, {"groups", 3}}},
      {"grouped_conv", {F({2, 3, 9, 9}), F({2, 3, 3, 3}), F({2})}, {{"dilate", Dims({2, 3})}}},
      {"grouped_conv_grad_image",
       {F({2, 6, 6, 6}), F({6, 2, 3, 2})},
       {{"groups", 2}, {"outsize", Dims({8, 7})}}},
      {"grouped_conv_grad_image",
       {F({2, 6, 4}, Dtype::kFloat16), F({6, 1, 3})},
       {{"stride", Dims({2})},
        {"pad", Dims({1})},
        {"dilate", Dims({2})},
        {"groups", 3},
        {"outsize", Dims({9})}}},
      {"grouped_conv_grad_weight",
       {F({2, 4, 8, 7}), F({2, 6, 4, 6})},
       {{"dilate", Dims({2, 1})}, {"groups", 2}, {"ksize", Dims({3, 2})}}},
      {"grouped_conv_grad_weight",
       {F({2, 3, 9}), F({2, 6, 9})},
       {{"pad", Dims({1})}, {"groups", 3}, {"ksize", Dims({3})}}},
      {"conv_transpose", {F({2, 4, 4, 3}), F({4, 3, 3, 2}), F({3})}, {{"stride", Dims({2})}}},
      {"conv_transpose",
       {F({2, 4, 4, 3}), F({4, 3, 3, 3}), Argument()},
       {{"stride", Dims({2})}, {"pad", Dims({1})}, {"outsize", Dims({8, 6})}}},
      {"conv_transpose",
       {F({2, 4, 4, 3}), F({4, 3, 3, 3}), Argument()},
       {{"stride", Dims({2})}, {"pad", Dims({1})}, {"outsize", Dims({6, 4})}}},
      {"conv_grad_weight",
       {F({2, 3, 8, 7}), F({2, 4, 4, 4})},
       {{"ksize", Dims({3})}, {"stride", Dims({2})}, {"pad", Dims({1})}}},
      {"max_pool", {F({2, 3, 8, 7})}, {{"ksize", Dims({2})}}},
      {"max_pool",
       {F({2, 3, 7, 6, 5}, Dtype::kFloat64)},
       {{"ksize", Dims({3, 2, 2})}, {"stride", Dims({2})}, {"cover_all", true}}},
      {"average_pool", {F({2, 3, 8, 7})}, {{"ksize", Dims({3})}, {"pad", Dims({1})}}},
      {"average_pool",
       {F({2, 3, 8}, Dtype::kFloat16)},
       {{"ksize", Dims({3})}, {"stride", Dims({1})}, {"pad_mode", 1}}},
      {"adaptive_average_pool",
       {F({2, 3, 8, 7}, Dtype::kFloat16)},
       {{"output_size", Dims({4, 3})}}},
      {"adaptive_max_pool", {F({2, 3, 8, 7})}, {{"output_size", Dims({5})}}},
      {"adaptive_max_index", {F({2, 3, 8, 7})}, {{"output_size", Dims({4, 3})}}},
      {"interpolate", {F({2, 3, 8, 7})}, {{"size", Dims({5, 9})}}},
      {"interpolate", {F({2, 3, 8})}, {{"scale_factor", 1.5}, {"mode", 1}}},
      {"interpolate",
       {F({2, 3, 4, 5})},
       {{"size", Dims({6})}, {"mode", 2}, {"align_corners", true}}},
      {"interpolate", {F({2, 3, 4, 5, 2})}, {{"scale_factor", 0.5}, {"mode", 3}}},
      {"pixel_shuffle", {F({2, 8, 3, 5})}, {{"upscale_factor", 2}}},
      {"pixel_unshuffle", {F({8, 3, 6})}, {{"downscale_factor", 3}}},
      {"max_pool_index", {F({2, 3, 8, 7})}, {{"ksize", Dims({2})}}},
      {"pool_gather", {F({2, 3, 8, 7}), index}, {{"ksize", Dims({2})}}},
      {"pool_scatter",
       {F({2, 3, 4, 3}), index},
       {{"shape", Dims({2, 3, 8, 7})}, {"ksize", Dims({2})}}},
      {"average_pool_grad",
       {F({2, 3, 4, 3})},
       {{"shape", Dims({2, 3, 8, 7})}, {"ksize", Dims({2})}}},
      {"average_pool_grad",
       {F({2, 3, 5, 4})},
       {{"shape", Dims({2, 3, 8, 7})}, {"ksize", Dims({2})}, {"pad", Dims({1})}}},
      {"pool_sum", {F({2, 3, 8, 7})}, {{"ksize", Dims({2})}}},
      {"pool_spread", {F({2, 3, 4, 3})}, {{"shape", Dims({2, 3, 8, 7})}, {"ksize", Dims({2})}}},
      {"batch_norm", {F({4, 3}), F({3}), F({3}), F({3}), F({3})}, {}},
      {"batch_norm",
       {F({4, 3, 5, 5}, Dtype::kFloat16), F({3}), F({3}), F({3}), F({3})},
       {{"axis", Dims({0, 2, -1})}}},
      {"batch_norm", {F({4, 3, 5}), F({3, 5}), F({3, 5}), F({3, 5}), F({3, 5})}, {}},
      {"fixed_batch_norm", {F({4, 3, 5}), F({3, 5}), F({3, 5}), F({3, 5}), F({3, 5})}, {}},
      {"batch_norm_forward", {F({4, 3, 5}), F({3, 5}), F({3, 5})}, {}},
      {"batch_norm_grad", {F({4, 3, 5}), F({3, 5}), F({4, 3, 5})}, {}},
  };
}

std::vector<Sample> RowsAndAttention() {
  std::vector<Sample> samples = {
      {"gelu", {F({2, 3})}, {{"approximate", 1}}},
      {"gelu", {I({2, 3})}, {}},
      {"layer_norm", {F({4, 3, 5}), F({3, 5}), F({3, 5})}, {{"normalized_shape", Dims({3, 5})}}},
      {"layer_norm", {F({4, 3}, Dtype::kFloat16), Argument(), F({3})}, {}},
      {"layer_norm", {I({4, 3})}, {}},
      {"rms_norm", {F({4, 3}), F({3}, Dtype::kFloat64)}, {}},
      {"rms_norm", {F({4, 3})}, {{"eps", 1e-3}}},
      {"group_norm", {F({2, 6, 5}), F({6}), F({6})}, {{"num_groups", 3}}},
      {"group_norm", {F({2, 6}, Dtype::kFloat16), F({6})}, {{"num_groups", 2}}},
      {"group_norm_grad", {F({2, 6, 5}), F({2, 6, 5}), F({6})}, {{"num_groups", 3}}},
      {"group_norm_grad",
       {F({2, 6}, Dtype::kFloat16), F({2, 6})},
       {{"num_groups", 2}, {"affine", false}}},
      {"instance_norm", {F({2, 3, 4, 5}), F({3}), F({3})}, {}},
      {"instance_norm", {F({2, 3, 4})}, {}},
  };
  for (const char* op : {"layer_norm_grad", "rms_norm_grad"}) {
    samples.push_back({op, {F({4, 3}), F({4, 3}), F({3})}, {}});
    samples.push_back({op, {F({4, 3}), F({4, 3})}, {{"affine", false}}});
  }
  const ArraySpec q = F({2, 4, 5, 3});
  const ArraySpec v = F({2, 4, 6, 7});
  const ArraySpec y = F({2, 4, 5, 7});
  for (const char* op : {"scaled_dot_product_attention", "attention_forward"}) {
    samples.push_back({op, {q, F({2, 4, 6, 3}), v}, {}});
    samples.push_back({op, {q, F({2, 4, 6, 3}), v, F({4, 1, 6})}, {{"scale", 2.0}}});
    samples.push_back({op, {q, F({2, 4, 6, 3}), v, I({5, 6}, Dtype::kBool)}, {}});
    samples.push_back(
        {op, {q, F({2, 2, 6, 3}), F({2, 2, 6, 7})}, {{"is_causal", true}, {"enable_gqa", true}}});
    samples.push_back({op, {F({5, 3}), F({0, 3}), F({0, 7})}, {}});
  }
  const ArraySpec key = F({1}, Dtype::kFloat64);
  const Argument none;
  for (const char* op : {"attention_with_dropout", "attention_forward"}) {
    samples.push_back({op, {q, F({2, 4, 6, 3}), v, none, key}, {{"dropout_p", 0.25}}});
    samples.push_back({op, {q, F({2, 4, 6, 3}), v, F({4, 1, 6}), key}, {{"dropout_p", 0.25}}});
  }
  for (const char* op : {"rope", "rope_grad"}) {
    samples.push_back({op, {F({2, 5, 6})}, {}});
    samples.push_back({op, {F({2, 5, 6}, Dtype::kFloat16), I({5}), F({3})}, {}});
    samples.push_back({op, {F({2, 5, 6}), I({2, 1})}, {{"interleaved", true}}});
  }
  const ArraySpec lse = F({2, 4, 5});
  samples.push_back({"attention_grad", {q, F({2, 4, 6, 3}), v, y, lse, y}, {{"is_causal", true}}});
  samples.push_back(
      {"attention_grad", {q, F({2, 4, 6, 3}), v, y, lse, y, F({5, 6})}, {{"mask_grad", true}}});
  for (const Argument& mask : {none, Argument(F({5, 6}))}) {
    samples.push_back(
        {"attention_grad", {q, F({2, 4, 6, 3}), v, y, lse, y, mask, key}, {{"dropout_p", 0.25}}});
  }
  samples.push_back(
      {"uniform_by_key", {key}, {{"shape", Dims({4, 2, 3})}, {"begin", 0}, {"end", 2}}});
  samples.push_back({"uniform_by_key", {key}, {{"shape", Dims({2, 3})}, {"begin", 1}, {"end", 2}}});
  samples.push_back(
      {"attention_grad", {q, F({2, 2, 6, 3}), F({2, 2, 6, 7}), y, lse, y}, {{"enable_gqa", true}}});
  return samples;
}

std::vector<Sample> Recurrent() {
  return {
      {"lstm", {F({4, 3}), F({2, 12})}, {}},
      {"lstm", {F({4, 3, 2}, Dtype::kFloat64), F({4, 12, 2})}, {}},
      {"lstm_cell", {F({4, 12}), F({4, 12}), F({4, 3})}, {}},
      {"lstm_cell_grad", {F({4, 12}), F({4, 12}), F({4, 3}), F({4, 3}), F({4, 3})}, {}},
      {"slstm", {F({4, 3}), F({4, 3}), F({4, 12}), F({4, 12})}, {}},
      {"tree_lstm", {F({4, 3}), F({4, 3}), F({4, 15})}, {}},
  };
}

std::vector<Sample> Sequences() {
  std::vector<Sample> samples;
  for (const bool grads : {false, true}) {
    const char* const op = grads ? "rnn_grad" : "rnn";
    for (int mode = 0; mode < 4; ++mode) {
      samples.push_back(Rnn(op, mode, 1, 1, grads));
      samples.push_back(Rnn(op, mode, 2, 2, grads, Dtype::kFloat64));
    }
    samples.push_back(Rnn(op, 2, 3, 1, grads, Dtype::kFloat16));
  }
  for (const char* op : {"lstm_layer", "lstm_layer_forward", "lstm_layer_grad"}) {
    samples.push_back(LstmLayer(op, Dtype::kFloat32, false));
    samples.push_back(LstmLayer(op, Dtype::kFloat16, true));
  }
  return samples;
}

}  // namespace chx::samples
