#include "ops/testing/samples.h"

#include <string>
#include <utility>

#include "ops/basic_index.h"
#include "ops/registry.h"

namespace chx {
namespace {

using Named = std::vector<std::pair<std::string, AttrValue>>;

struct Sample {
  const char* op;
  std::vector<Argument> inputs;
  Named attrs;
};

ArraySpec F(std::initializer_list<int64_t> shape, Dtype dtype = Dtype::kFloat32) {
  return ArraySpec(dtype, Shape(shape));
}

ArraySpec I(std::initializer_list<int64_t> shape, Dtype dtype = Dtype::kInt64) {
  return ArraySpec(dtype, Shape(shape));
}

// Rows in reverse, every second column: no view of it in one dimension.
ArraySpec Strided(int64_t rows, int64_t columns) {
  ArraySpec spec(Dtype::kFloat32, {rows, columns});
  spec.strides = {-8 * columns, 8};
  spec.offset = (rows - 1) * 8 * columns;
  return spec;
}

AttrValue Dims(std::initializer_list<int64_t> values) { return AttrValue(Ints(values)); }

std::vector<Sample> CreationAndCopies() {
  return {
      {"empty", {}, {{"shape", Dims({2, 3})}}},
      {"full", {}, {{"shape", Dims({2, 3})}, {"fill_value", Scalar(1.5)}}},
      {"full", {}, {{"shape", Dims({})}, {"fill_value", Scalar(true)}, {"dtype", Dtype::kInt8}}},
      {"zeros", {}, {{"shape", Dims({0, 3})}}},
      {"ones", {}, {{"shape", Dims({3})}, {"dtype", Dtype::kFloat16}}},
      {"arange", {}, {{"start", Scalar(5)}}},
      {"arange", {}, {{"start", Scalar(1)}, {"stop", Scalar(2.5)}, {"step", Scalar(0.5)}}},
      {"arange", {}, {{"start", Scalar(3)}, {"stop", Scalar(0)}, {"step", Scalar(-1)}}},
      {"eye", {}, {{"N", 3}}},
      {"eye", {}, {{"N", 3}, {"M", 4}, {"k", -1}, {"dtype", Dtype::kInt8}}},
      {"identity", {}, {{"n", 2}}},
      {"full_like", {F({2, 3})}, {{"fill_value", Scalar(2)}}},
      {"astype", {F({2, 3})}, {{"dtype", Dtype::kFloat64}}},
      {"astype", {I({2, 3})}, {{"dtype", Dtype::kBool}}},
      {"fill", {I({2, 3})}, {{"value", Scalar(2.5)}}},
      {"copyto", {F({2, 3}), I({3})}, {}},
      {"copyto", {F({2, 3}), Scalar(1)}, {}},
      {"to_device", {Strided(2, 3)}, {{"device", 0}}},
      {"to_device", {Strided(2, 3)}, {{"device", 1}}},
  };
}

std::vector<Sample> ReductionsAndProducts() {
  std::vector<Sample> samples = {
      {"sum", {I({2, 3})}, {{"dtype", Dtype::kFloat64}}},
      {"sum", {F({2, 3})}, {{"dtype", Dtype::kFloat64}}},
      {"mean", {F({2, 3})}, {{"dtype", Dtype::kInt8}}},
      {"var", {I({2, 3})}, {{"dtype", Dtype::kFloat64}}},
      {"nanvar", {F({2, 3}, Dtype::kFloat16)}, {{"ddof", 1}}},
      {"nan_to_num", {F({2, 3})}, {{"posinf", 1.0}, {"neginf", -1.0}}},
      {"heaviside", {F({2, 3}), Scalar(0.5)}, {}},
      {"logaddexp2", {Scalar(0.5), F({2, 3})}, {}},
      {"float_power", {F({2, 3}), Scalar(2)}, {}},
      {"argmax", {F({2, 3})}, {}},
      {"argmax", {F({2, 3})}, {{"axis", -1}}},
      {"argmin", {I({2, 3})}, {{"axis", 0}}},
      {"dot", {F({2, 3}), F({3, 4})}, {}},
      {"dot", {F({3}), F({3})}, {}},
      {"dot", {F({}), F({2, 3})}, {}},
      {"dot", {F({2, 3}), F({4, 3, 5})}, {}},
      {"matmul", {F({2, 3}), F({3, 4}, Dtype::kFloat64)}, {}},
      {"matmul", {F({3}), F({3})}, {}},
      {"matmul", {F({3}), F({5, 3, 4})}, {}},
      {"matmul", {F({5, 2, 3}), F({3})}, {}},
      {"matmul", {F({5, 1, 2, 3}), F({6, 3, 4})}, {}},
      {"linear", {F({5, 3}), F({4, 3}), F({4})}, {}},
      {"linear", {F({5, 3}), F({4, 3}), Argument()}, {}},
      {"linear", {F({5, 2, 3}), F({4, 6}), F({4})}, {}},
      {"linear", {F({5, 2, 3}), F({4, 3}), F({4})}, {{"n_batch_axes", 2}}},
      {"linear", {F({5, 2}), F({4, 1}), F({4})}, {{"n_batch_axes", 2}}},
      {"linear", {F({5}), F({4, 1}), F({4})}, {}},
  };
  for (const char* op : {"sum", "mean", "amax", "amin", "logsumexp"}) {
    for (const bool keepdims : {false, true}) {
      const std::pair<std::string, AttrValue> keep{"keepdims", keepdims};
      samples.push_back({op, {F({2, 3})}, {keep}});
      samples.push_back({op, {F({2, 3, 4})}, {{"axis", Dims({-1})}, keep}});
      samples.push_back({op, {F({2, 3, 4})}, {{"axis", Dims({2, 0})}, keep}});
      samples.push_back({op, {F({2, 3})}, {{"axis", Dims({})}, keep}});
      samples.push_back({op, {I({2, 3})}, {{"axis", Dims({1})}, keep}});
    }
  }
  for (const char* op : {"softmax", "log_softmax"}) {
    samples.push_back({op, {F({2, 3})}, {}});
    samples.push_back({op, {F({2, 3, 4})}, {{"axis", Dims({0, 2})}}});
    samples.push_back({op, {I({2, 3})}, {{"axis", Dims({-2})}}});
  }
  return samples;
}

std::vector<Sample> ManipulationAndIndexing() {
  const AttrValue index = IndexBuilder().Int(-1).NewAxis().Slice({}, {}, -2).Ellipsis().Build();
  return {
      {"reshape", {F({2, 3})}, {{"newshape", Dims({3, -1})}}},
      {"reshape", {Strided(2, 3)}, {{"newshape", Dims({6})}}},
      {"ravel", {Strided(2, 3)}, {}},
      {"transpose", {F({2, 3, 4})}, {}},
      {"transpose", {F({2, 3, 4})}, {{"axes", Dims({1, -1, 0})}}},
      {"squeeze", {F({2, 1, 1})}, {}},
      {"squeeze", {F({2, 1, 1})}, {{"axis", Dims({-1})}}},
      {"expand_dims", {Strided(2, 3)}, {{"axis", -1}}},
      {"broadcast_to", {F({1, 3})}, {{"shape", Dims({4, 2, 3})}}},
      {"split", {F({4, 3})}, {{"sections", 2}}},
      {"split", {F({4, 5})}, {{"indices", Dims({1, 3})}, {"axis", -1}}},
      {"split", {F({4, 5})}, {{"indices", Dims({3, 1, -9, 9})}, {"axis", 1}}},
      {"split", {F({4})}, {{"indices", Dims({})}}},
      {"concatenate", {F({2, 3}), F({4, 3})}, {}},
      {"concatenate", {F({2, 3}), F({2, 1}, Dtype::kFloat64)}, {{"axis", -1}}},
      {"concatenate", {F({2, 3}), I({4})}, {{"axis", AttrValue()}}},
      {"concatenate", {F({2, 3})}, {{"axis", 0}}},
      {"stack", {F({2, 3}), I({2, 3}), F({2, 3})}, {{"axis", -1}}},
      {"as_strided",
       {F({12})},
       {{"shape", Dims({2, 1, 3})}, {"strides", Dims({-20, 400, 8})}, {"offset", 24}}},
      {"as_strided",
       {F({0})},
       {{"shape", Dims({2, 0})}, {"strides", Dims({28, 8})}, {"offset", 0}}},
      {"getitem", {F({4, 5, 6})}, {{"index", index}}},
      {"getitem", {F({4, 5})}, {{"index", IndexBuilder().Build()}}},
      {"getitem_grad", {F({1, 3, 6})}, {{"shape", Dims({4, 5, 6})}, {"index", index}}},
      {"take", {F({3, 4}), I({2, 5})}, {{"axis", 1}}},
      {"take", {F({3, 4}), I({}, Dtype::kUint8)}, {{"axis", -2}, {"mode", 1}}},
      {"embedding", {I({2, 5}, Dtype::kInt8), F({3, 4, 2})}, {}},
      {"embedding", {I({2, 5}), F({3, 4})}, {{"padding_idx", -1}}},
      {"masked_fill", {F({2, 3}), I({3}, Dtype::kBool), Scalar(1)}, {}},
      {"segment_sum", {I({5, 2}), I({5})}, {{"num_segments", 3}}},
      {"segment_mean", {I({5, 2}), I({5}, Dtype::kInt8)}, {{"num_segments", 3}}},
      {"segment_prod", {F({5, 2}), I({5})}, {{"num_segments", 3}}},
      {"segment_prod", {F({0, 2}), I({0})}, {{"num_segments", 3}}},
      {"segment_max", {F({5, 2, 2}), I({5})}, {{"num_segments", 3}}},
      {"segment_max", {F({0, 2}), I({0})}, {{"num_segments", 0}}},
      {"segment_min", {F({5}), I({5})}, {{"num_segments", 7}}},
      {"scatter_reduce", {F({4, 3}), I({5, 2}), F({5, 2})}, {{"axis", 0}, {"reduce", 3}}},
      {"scatter_reduce",
       {F({4, 3}), I({2, 7}), F({2, 7})},
       {{"axis", -1}, {"reduce", 2}, {"include_self", false}}},
      {"index_add", {F({4, 3}), I({5}), F({4, 5})}, {{"axis", 1}}},
      {"masked_fill", {F({2, 3}), I({4, 1, 3}, Dtype::kBool), F({}, Dtype::kFloat64)}, {}},
      {"take_grad", {F({3, 2, 5}), I({2, 5})}, {{"shape", Dims({3, 4})}, {"axis", 1}, {"mode", 0}}},
  };
}

std::vector<Sample> LossesAndRandom() {
  const ArraySpec labels = I({5}, Dtype::kInt32);
  return {
      {"softmax_cross_entropy", {F({5, 3}), labels}, {}},
      {"softmax_cross_entropy", {F({5, 3}, Dtype::kFloat16), I({5}, Dtype::kUint8)}, {}},
      {"softmax_cross_entropy_grad", {F({5, 3}), labels, F({5})}, {}},
      {"sigmoid_cross_entropy", {F({5, 3}), I({5, 3}, Dtype::kUint8)}, {}},
      {"accuracy", {F({5, 3}), labels}, {}},
      {"accuracy", {F({5, 3, 2}, Dtype::kFloat16), I({5, 2})}, {{"ignore_label", -1}}},
      {"cross_entropy", {F({5, 3}), labels}, {}},
      {"cross_entropy",
       {F({5, 3, 2, 4}), I({5, 2, 4}), F({3})},
       {{"reduction", 2}, {"label_smoothing", 0.25}}},
      {"cross_entropy", {F({3}), I({})}, {{"reduction", 1}}},
      {"cross_entropy",
       {F({5, 3, 2}, Dtype::kFloat16), F({5, 3, 2}), F({3})},
       {{"label_smoothing", 0.25}}},
      {"smooth_cross_entropy", {F({5, 3}), I({5})}, {{"smoothing", 0.25}}},
      {"smooth_cross_entropy_grad", {F({5, 3}), I({5}), F({5})}, {{"smoothing", 0.25}}},
      {"nll_loss", {F({5, 3}), labels, F({3})}, {}},
      {"nll_loss", {F({5, 3, 2, 4}), I({5, 2, 4})}, {{"reduction", 2}}},
      {"kl_div", {F({2, 3}), F({3})}, {{"reduction", 3}}},
      {"kl_div", {F({2, 3}), F({2, 3})}, {{"reduction", 2}, {"log_target", true}}},
      {"ctc_loss", {F({6, 2, 4}), I({2, 3}), I({2}), I({2})}, {}},
      {"ctc_loss",
       {F({3, 2, 4}, Dtype::kFloat16), I({2, 0}, Dtype::kInt8), I({2}), I({2})},
       {{"blank", 3}, {"reduction", 2}, {"zero_infinity", true}}},
      {"random_uniform", {}, {{"shape", Dims({2, 3})}, {"seed", 1}, {"counter", 2}}},
      {"random_normal", {}, {{"shape", Dims({2, 3})}, {"seed", 1}, {"counter", 2}}},
      {"random_gamma", {F({2, 3})}, {{"seed", 1}, {"counter", 2}}},
      {"random_poisson", {F({2, 3})}, {{"seed", 1}, {"counter", 2}}},
      {"random_binomial", {I({2, 3}), F({2, 3})}, {{"seed", 1}, {"counter", 2}}},
  };
}

std::vector<Sample> ViewsAndJoining() {
  return {
      {"swapaxes", {F({2, 3, 4})}, {{"axis1", 0}, {"axis2", -1}}},
      {"rollaxis", {F({2, 3, 4})}, {{"axis", -1}}},
      {"rollaxis", {F({2, 3, 4})}, {{"axis", 0}, {"start", 3}}},
      {"moveaxis", {F({2, 3, 4})}, {{"source", Dims({0, -1})}, {"destination", Dims({-1, 0})}}},
      {"flip", {Strided(2, 3)}, {{"axes", Dims({1})}}},
      {"diagonal", {F({2, 3, 4})}, {{"offset", -1}, {"axis1", 2}, {"axis2", 0}}},
      {"diagonal", {F({2, 3})}, {{"offset", 9}}},
      {"trace", {I({3, 3})}, {}},
      {"diag", {F({3})}, {{"k", -2}}},
      {"diag", {Strided(2, 3)}, {{"k", 1}}},
      {"hstack", {F({3}), F({2})}, {}},
      {"hstack", {F({2, 3}), I({2, 1})}, {}},
      {"vstack", {F({3}), F({2, 3})}, {}},
      {"dstack", {F({3}), F({1, 3, 2})}, {}},
      {"repeat", {F({2, 3})}, {{"repeats", Dims({2})}}},
      {"repeat", {Strided(2, 3)}, {{"repeats", Dims({1, 0, 2})}, {"axis", -1}}},
      {"tile", {F({2, 3})}, {{"reps", Dims({2, 1, 3})}}},
      {"tile", {Strided(2, 3)}, {{"reps", Dims({1})}}},
      {"roll", {F({2, 3})}, {{"shift", Dims({-4})}}},
      {"roll", {F({2, 3})}, {{"shift", Dims({1})}, {"axis", Dims({0, 1})}}},
      {"constant_pad", {I({2, 3})}, {{"widths", Dims({1, 0, 0, 2})}, {"value", Scalar(1)}}},
      {"tri", {}, {{"N", 3}}},
      {"tri", {}, {{"N", 3}, {"M", 2}, {"k", -1}, {"dtype", Dtype::kInt8}}},
      {"tril", {F({3})}, {}},
      {"triu", {Strided(2, 3)}, {{"k", 1}}},
      {"linspace", {}, {{"start", Scalar(0)}, {"stop", Scalar(1.5)}}},
      {"linspace", {}, {{"start", Scalar(0)}, {"stop", Scalar(9)}, {"num", 1}}},
      {"meshgrid", {F({3}), I({2}), F({})}, {}},
      {"meshgrid", {F({3}), I({2})}, {{"indexing", 1}}},
  };
}

std::vector<Sample> SortingAndStatistics() {
  return {
      {"sort", {F({2, 3})}, {}},
      {"sort", {Strided(2, 3)}, {{"axis", AttrValue()}}},
      {"argsort", {F({2, 3})}, {{"axis", 0}}},
      {"cumsum", {F({2, 3})}, {}},
      {"cumsum", {I({2, 3}, Dtype::kInt8)}, {{"axis", 1}}},
      {"cumprod", {F({2, 3})}, {}},
      {"cumprod", {F({2, 3})}, {{"axis", -2}}},
      {"take_along_axis", {F({2, 3}), I({2, 4}, Dtype::kInt8)}, {{"axis", 1}}},
      {"take_along_axis_grad", {F({2, 4}), I({2, 4})}, {{"shape", Dims({2, 3})}, {"axis", 1}}},
      {"index_put", {F({4, 3}), I({2}), I({2, 3})}, {}},
      {"nonzero_positions", {F({2, 3})}, {{"count", 4}}},
      {"nonzero_positions", {F({2, 3})}, {{"count", 6}}},
      {"huber_loss", {F({2, 3}), F({3})}, {{"delta", 1.0}}},
      {"hinge", {F({5, 3}), I({5})}, {{"norm", 2.0}}},
      {"median", {F({2, 3})}, {}},
      {"median", {I({2, 3})}, {{"axis", 1}, {"keepdims", true}}},
      {"prod", {F({2, 3})}, {{"axis", Dims({0})}}},
      {"var", {F({2, 3}, Dtype::kFloat16)}, {{"axis", Dims({1})}, {"ddof", 1}}},
  };
}

std::vector<Sample> Decompositions() {
  std::vector<Sample> samples = {
      {"solve", {F({3, 3}), F({3})}, {}},
      {"solve", {F({3, 3}), F({3, 2}, Dtype::kFloat64)}, {}},
      {"solve", {F({5, 3, 3}), F({5, 3})}, {}},
      {"solve", {F({5, 1, 3, 3}), F({2, 3, 1})}, {}},
      {"svd", {F({2, 4, 3})}, {}},
      {"svd", {F({2, 4, 3})}, {{"full_matrices", false}, {"compute_uv", false}}},
      {"svd", {F({0, 3})}, {}},
      {"pinv", {F({0, 3})}, {}},
      {"qr", {F({3, 0})}, {{"mode", 1}}},
      {"qr", {F({3, 4})}, {{"mode", 2}}},
      {"qr", {F({2, 4, 3})}, {{"mode", 3}}},
      {"matrix_power", {F({2, 3, 3})}, {{"n", 5}}},
      {"matrix_power", {F({2, 3, 3})}, {{"n", 0}}},
      {"matrix_power", {F({3, 3})}, {{"n", -2}}},
      {"norm", {F({2, 3}, Dtype::kFloat16)}, {}},
      {"norm", {F({2, 3})}, {{"axis", Dims({-1})}, {"keepdims", true}}},
      {"norm", {F({2, 3})}, {{"ord", 3.0}, {"axis", Dims({0})}}},
      {"norm", {F({2, 3})}, {{"ord", 0.0}, {"axis", Dims({0})}}},
      {"norm", {F({2, 3})}, {{"ord", -1.0}}},
      {"norm", {F({2, 3, 4}, Dtype::kFloat16)}, {{"ord", 2.0}, {"axis", Dims({2, 0})}}},
  };
  for (const char* op :
       {"inv", "cholesky", "eigh", "eigvalsh", "eig", "eigvals", "det", "slogdet", "cofactors"}) {
    samples.push_back({op, {F({3, 3})}, {}});
    samples.push_back({op, {F({2, 5, 3, 3}, Dtype::kFloat64)}, {}});
  }
  // Their gradients are for these only.
  for (const ArraySpec& a : {F({4, 3}), F({2, 3, 3})}) {
    samples.push_back({"qr", {a}, {}});
    for (const ArraySpec& either : {a, F({2, 3, 4})}) {
      samples.push_back({"svd", {either}, {{"full_matrices", false}}});
      samples.push_back({"pinv", {either}, {}});
      samples.push_back({"pinv", {either}, {{"rcond", 1e-3}}});
    }
  }
  return samples;
}

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
  for (const char* op : {"rope", "rope_grad"}) {
    samples.push_back({op, {F({2, 5, 6})}, {}});
    samples.push_back({op, {F({2, 5, 6}, Dtype::kFloat16), I({5}), F({3})}, {}});
    samples.push_back({op, {F({2, 5, 6}), I({2, 1})}, {{"interleaved", true}}});
  }
  const ArraySpec lse = F({2, 4, 5});
  samples.push_back({"attention_grad", {q, F({2, 4, 6, 3}), v, y, lse, y}, {{"is_causal", true}}});
  samples.push_back(
      {"attention_grad", {q, F({2, 4, 6, 3}), v, y, lse, y, F({5, 6})}, {{"mask_grad", true}}});
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
  return samples;
}

Call ToCall(const OpDef& op, const std::vector<Argument>& inputs, const Named& attrs) {
  Call call;
  call.op = &op;
  call.inputs = inputs;
  for (const AttrDef& attr : op.attrs) call.attrs.push_back(attr.default_value);
  for (const auto& attr : attrs) {
    const int index = op.AttrIndex(attr.first);
    if (index >= 0) call.attrs[index] = attr.second;
  }
  return call;
}

// All inputs of one shape, broadcast shapes, a scalar in each place that takes one; dtypes.
std::vector<Call> MadeUp(const OpDef& op) {
  std::vector<Call> calls;
  const size_t n = op.inputs.size();
  if (n == 0) return calls;
  const auto add = [&](std::vector<Argument> inputs) {
    calls.push_back(ToCall(op, inputs, {}));
    for (size_t i = 0; i < op.attrs.size(); ++i) {
      const bool missing = op.attrs[i].required && op.attrs[i].type == AttrType::kFloat;
      if (missing) calls.back().attrs[i] = AttrValue(0.5);
    }
  };
  add(std::vector<Argument>(n, F({2, 3})));
  for (int i = 0; i < kNumDtypes; ++i) {
    add(std::vector<Argument>(n, F({2, 3}, static_cast<Dtype>(i))));
  }
  if ((!op.elementwise && !op.in_place) || op.has_lists()) return calls;
  const std::vector<Argument> arguments = {F({3}),
                                           F({2, 1}, Dtype::kFloat64),
                                           F({}, Dtype::kFloat16),
                                           I({3}),
                                           I({2, 3}, Dtype::kUint8),
                                           I({1, 1}, Dtype::kBool),
                                           Scalar(true),
                                           Scalar(-2),
                                           Scalar(2.5)};
  for (size_t i = 0; i < n; ++i) {
    for (const Argument& argument : arguments) {
      if (argument.scalar.has_value() && !op.inputs[i].scalar) continue;
      std::vector<Argument> inputs(n, Strided(2, 3));
      inputs[i] = argument;
      add(inputs);
    }
  }
  return calls;
}

}  // namespace

std::vector<Call> SampleCalls(const OpDef& op) {
  std::vector<Call> calls;
  for (const auto& group :
       {CreationAndCopies(), ReductionsAndProducts(), ManipulationAndIndexing(), LossesAndRandom(),
        ViewsAndJoining(), SortingAndStatistics(), Decompositions(), Recurrent(), Sequences(),
        NeuralNetworks(), RowsAndAttention()}) {
    for (const Sample& sample : group) {
      if (op.name == sample.op) calls.push_back(ToCall(op, sample.inputs, sample.attrs));
    }
  }
  return calls.empty() ? MadeUp(op) : calls;
}

}  // namespace chx
