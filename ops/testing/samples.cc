#include "ops/testing/samples.h"

#include <string>
#include <utility>

#include "ops/basic_index.h"
#include "ops/registry.h"
#include "ops/testing/sample.h"

namespace chx {
namespace {

using samples::Dims;
using samples::F;
using samples::I;
using samples::Named;
using samples::Sample;

// Rows in reverse, every second column: no view of it in one dimension.
ArraySpec Strided(int64_t rows, int64_t columns) {
  ArraySpec spec(Dtype::kFloat32, {rows, columns});
  spec.strides = {-8 * columns, 8};
  spec.offset = (rows - 1) * 8 * columns;
  return spec;
}

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
      {"one_hot", {I({2, 3})}, {{"num_classes", 4}}},
      {"one_hot", {I({2, 3})}, {{"num_classes", 4}, {"dtype", Dtype::kInt8}, {"axis", 1}}},
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
      {"sgd_update_rows", {F({5, 3}), F({2, 3}), I({2})}, {{"lr", 0.5}}},
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
      {"class_labels",
       {I({5}, Dtype::kInt8)},
       {{"ignore_index", -100}, {"classes", 3}, {"dtype", Dtype::kFloat32}}},
      {"nll_loss_elements", {F({5, 3, 2}), I({5, 2})}, {}},
      {"nll_loss", {F({5, 3}), labels, F({3})}, {}},
      {"nll_loss", {F({5, 3, 2, 4}), I({5, 2, 4})}, {{"reduction", 2}}},
      {"kl_div", {F({2, 3}), F({3})}, {{"reduction", 3}}},
      {"kl_div", {F({2, 3}), F({2, 3})}, {{"reduction", 2}, {"log_target", true}}},
      {"ctc_loss", {F({6, 2, 4}), I({2, 3}), I({2}), I({2})}, {}},
      {"ctc_loss",
       {F({3, 2, 4}, Dtype::kFloat16), I({2, 0}, Dtype::kInt8), I({2}), I({2})},
       {{"blank", 3}, {"reduction", 2}, {"zero_infinity", true}}},
      {"ctc_forward", {F({6, 2, 4}), I({2, 3}), I({2}), I({2})}, {}},
      {"ctc_forward", {F({3, 2, 4}, Dtype::kFloat16), I({2, 0}), I({2}), I({2})}, {{"blank", 3}}},
      {"ctc_grad", {F({6, 2, 4}), I({2, 3}), I({2}), I({2}), F({2}), F({6, 2, 7}), F({2})}, {}},
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
      {"topk", {F({2, 3})}, {{"k", 2}}},
      {"topk", {Strided(2, 3)}, {{"k", 1}, {"axis", 0}, {"largest", false}}},
      {"take_along_axis", {F({2, 3}), I({2, 4}, Dtype::kInt8)}, {{"axis", 1}}},
      {"take_along_axis_grad", {F({2, 4}), I({2, 4})}, {{"shape", Dims({2, 3})}, {"axis", 1}}},
      {"index_put", {F({4, 3}), I({2}), I({2, 3})}, {}},
      {"nonzero_positions", {F({2, 3})}, {{"count", 4}}},
      {"nonzero_positions", {F({2, 3})}, {{"count", 6}}},
      {"huber_loss", {F({2, 3}), F({3})}, {{"delta", 1.0}}},
      {"huber_loss_grad", {F({2, 3}), F({3}), F({2, 3})}, {{"delta", 1.0}}},
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

std::vector<Sample> Collectives() {
  // Rank 1 of 3, where the root is another one, and where it is the root.
  const std::pair<std::string, AttrValue> group{"group", Dims({7, 1, 3})};
  const std::pair<std::string, AttrValue> root{"root", 1};
  std::vector<Sample> samples = {
      {"all_reduce", {F({2, 3}), I({4}), F({})}, {group, {"reduction", 4}}},
      {"all_reduce", {F({2, 3}, Dtype::kFloat16), I({4}), F({0, 3})}, {group, {"reduction", 1}}},
      {"all_reduce", {I({2, 3}, Dtype::kBool)}, {group, {"reduction", 2}}},
      {"all_reduce", {F({2, 3}), F({0})}, {group, {"reduction", 3}}},
      {"reduce_scatter", {F({3, 2})}, {group, {"reduction", 2}}},
      {"reduce_scatter", {F({3, 2})}, {group, {"reduction", 4}}},
      {"reduce", {F({2})}, {group, root, {"reduction", 4}}},
      {"reduce", {F({2})}, {group, {"reduction", 2}}},
      {"all_gather", {Strided(2, 3)}, {group}},
      {"all_to_all", {F({3, 2})}, {group}},
      {"reduce_scatter", {F({3, 2})}, {group}},
      {"reduce_scatter", {F({3})}, {group, {"reduction", 1}}},
      {"send", {F({2, 3})}, {group, {"peer", 0}}},
      {"send", {I({})}, {group, {"peer", 1}, {"tag", -1}}},
      {"recv", {Strided(2, 3)}, {group, {"peer", 2}, {"tag", 5}}},
      {"recv", {F({0, 3}, Dtype::kFloat16)}, {group, {"peer", 0}}},
      {"scatter", {F({2})}, {group}},
      {"scatter", {F({3, 2})}, {group, root}},
  };
  for (const char* op : {"all_reduce", "reduce", "broadcast", "gather"}) {
    samples.push_back({op, {F({2, 3})}, {group}});
    if (std::string(op) == "all_reduce") continue;
    samples.push_back({op, {F({2, 3})}, {group, root}});
    samples.push_back({op, {I({})}, {group, root}});
  }
  samples.push_back({"reduce", {I({2})}, {group, root, {"reduction", 1}}});
  // A group of one, which a session can have.
  for (const char* op : {"all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter",
                         "reduce_scatter", "all_to_all"}) {
    samples.push_back({op, {F({1, 2})}, {{"group", Dims({1, 0, 1})}}});
  }
  for (const char* op : {"send", "recv"}) {
    samples.push_back({op, {F({1, 2})}, {{"group", Dims({1, 0, 1})}, {"peer", 0}}});
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
        ViewsAndJoining(), SortingAndStatistics(), Decompositions(), Collectives(),
        samples::Recurrent(), samples::Sequences(), samples::NeuralNetworks(),
        samples::RowsAndAttention()}) {
    for (const Sample& sample : group) {
      if (op.name == sample.op) calls.push_back(ToCall(op, sample.inputs, sample.attrs));
    }
  }
  return calls.empty() ? MadeUp(op) : calls;
}

}  // namespace chx
