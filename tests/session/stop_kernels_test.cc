// Every kernel of the native backend, called with a token that says to stop: it must ask, and leave
// the end of large results alone. Derived from the table of operators, so that a new one is covered
// or asks here for a row.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/basic_index.h"
#include "ops/infer.h"
#include "ops/registry.h"
#include "server/engine/stop_token.h"
#include "tests/session/session_fixture.h"

namespace chx::server {
namespace {

constexpr int64_t kMany = 3 << 20;  // elements: more than a serial loop does before it asks
constexpr int64_t kTail = 4096;     // bytes
constexpr char kUntouched = 0x5a;

struct Input {
  Dtype dtype = Dtype::kFloat32;
  Shape shape;
  bool absent = false;
};
struct Call {
  std::vector<Input> inputs;
  Attrs attrs;
};

// Zeros: valid as positions, labels and numbers.
class Memory : public ScratchAllocator {
 public:
  absl::StatusOr<void*> Allocate(size_t bytes) override {
    blocks_.emplace_back(std::calloc(1, bytes + 1), &std::free);
    return blocks_.back().get();
  }

 private:
  std::vector<std::unique_ptr<void, decltype(&std::free)>> blocks_;
};

class StopKernelsTest : public SessionTest {
 protected:
  static absl::Status Infer(const OpDef& op, const Call& call, InferResult* result) {
    std::vector<ArraySpec> specs;
    specs.reserve(call.inputs.size());
    for (const Input& input : call.inputs) specs.emplace_back(input.dtype, input.shape);
    std::vector<SpecOperand> inputs;
    for (size_t i = 0; i < specs.size(); ++i) {
      inputs.push_back(call.inputs[i].absent ? SpecOperand() : SpecOperand(&specs[i]));
    }
    return InferOp({op, inputs, call.attrs}, result);
  }

  // Large arrays of one shape and attributes by their types, whatever the operator accepts.
  static absl::Status Guess(const OpDef& op, Call* call, InferResult* result) {
    for (const AttrDef& attr : op.attrs) {
      AttrValue value = attr.default_value;
      if (attr.required) {
        if (attr.type == AttrType::kInt) value = int64_t{0};
        if (attr.type == AttrType::kFloat) value = 0.5;
        if (attr.type == AttrType::kBool) value = false;
        if (attr.type == AttrType::kDtype) value = Dtype::kFloat32;
        if (attr.type == AttrType::kScalar) value = Scalar(1);
        if (attr.type == AttrType::kInts) value = Ints{kMany};
      }
      call->attrs.push_back(value);
    }
    absl::Status status;
    for (const Shape& shape : {Shape({kMany}), Shape({2048, kMany / 2048})}) {
      for (Dtype dtype : {Dtype::kFloat32, Dtype::kInt32, Dtype::kBool}) {
        call->inputs.assign(op.inputs.size(), {dtype, shape});
        status = Infer(op, *call, result);
        if (status.ok()) return status;
      }
    }
    return status;
  }

  // What to call operators with that do not take just any arrays.
  static std::map<std::string, Call> Rows();

  void Check(const OpDef& op, Kernel kernel, const Call& call, const InferResult& inferred) {
    Memory memory;
    StopToken token;
    ASSERT_EQ(token.Begin(1), StopReason::kNone);
    std::vector<KernelTensor> in;
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      in.push_back(NewTensor(ArraySpec(inferred.input_dtypes[i], call.inputs[i].shape), &memory));
      in.back().present = !call.inputs[i].absent;
    }
    std::vector<KernelTensor> out;
    for (const ArraySpec& spec : inferred.outputs) out.push_back(NewTensor(spec, &memory));
    if (op.in_place && !op.has_lists()) out.push_back(in[0]);
    for (const KernelTensor& tensor : op.has_lists() ? in : out) {
      std::memset(tensor.data, kUntouched, tensor.size() * ItemSize(tensor.dtype));
    }
    std::unique_ptr<Stream> stream = *devices_.at(0).NewStream();
    token.Cancel(1);
    {
      const StopScope scope(&token);
      kernel({op, *stream, memory, in, out, call.attrs}).IgnoreError();
    }
    EXPECT_TRUE(token.noticed()) << "does not ask whether to stop";
    for (const KernelTensor& tensor : op.has_lists() ? in : out) {
      const int64_t bytes = tensor.size() * ItemSize(tensor.dtype);
      if (bytes < kMany) continue;
      const char* const end = tensor.data + bytes;
      EXPECT_EQ(std::count(end - kTail, end, kUntouched), kTail) << "goes on to the end";
    }
  }

  static KernelTensor NewTensor(const ArraySpec& spec, Memory* memory) {
    KernelTensor tensor;
    tensor.dtype = spec.dtype;
    tensor.shape = spec.shape;
    tensor.strides = ContiguousStrides(spec.shape, ItemSize(spec.dtype));
    tensor.data = static_cast<char*>(*memory->Allocate(static_cast<size_t>(spec.nbytes())));
    return tensor;
  }
};

std::map<std::string, Call> StopKernelsTest::Rows() {
  constexpr Dtype kF = Dtype::kFloat32;
  constexpr Dtype kI = Dtype::kInt64;
  const Shape many({kMany});
  const Shape matrix({1536, 2048});
  const Shape stack({kMany / 16, 4, 4});
  const Shape image({1, 1, 1536, 2048});
  const Ints image_ints = {1, 1, 1536, 2048};
  const AttrValue none;
  const Input no_weight = {kF, {}, true};
  std::map<std::string, Call> rows;
  rows["arange"] = {{}, {Scalar(0), Scalar(kMany), none, none}};
  rows["eye"] = {{}, {int64_t{1536}, none, int64_t{0}, kF}};
  rows["one_hot"] = {{{kI, many}}, {int64_t{16}, kF, int64_t{-1}}};
  rows["getitem_grad"] = {{{kF, many}}, {Ints{kMany}, IndexBuilder().Ellipsis().Build()}};
  rows["take"] = {{{kF, many}, {kI, many}}, {int64_t{0}, none}};
  rows["take_grad"] = {{{kF, many}, {kI, many}}, {Ints{kMany}, int64_t{0}, none}};
  rows["sgd_update_rows"] = {{{kF, many}, {kF, many}, {kI, many}}, {0.5}};
  for (const char* op : {"segment_max", "segment_min", "segment_prod"}) {
    rows[op] = {{{kF, many}, {kI, many}}, {kMany}};
  }
  rows["scatter_reduce"] = {{{kF, many}, {kI, many}, {kF, many}}, {int64_t{0}, int64_t{3}, true}};
  rows["take_along_axis"] = {{{kF, many}, {kI, many}}, {int64_t{0}}};
  rows["take_along_axis_grad"] = {{{kF, many}, {kI, many}}, {Ints{kMany}, int64_t{0}}};
  rows["index_put"] = {{{kF, many}, {kI, many}, {kF, many}}, {}};
  rows["nonzero_positions"] = {{{kF, many}}, {kMany}};
  rows["topk"] = {{{kF, {kMany}}}, {int64_t{10}, int64_t{0}, true}};
  rows["matmul"] = {{{kF, matrix}, {kF, {2048, 2048}}}, {}};
  rows["linear"] = {{{kF, matrix}, {kF, {2048, 2048}}, {kF, {2048}}}, {int64_t{1}}};
  rows["cross_entropy"] = {{{kF, {kMany, 1}}, {kI, many}, no_weight},
                           {int64_t{-100}, int64_t{2}, 0.0}};
  rows["nll_loss"] = {{{kF, {kMany, 1}}, {kI, many}, no_weight}, {int64_t{-100}, int64_t{2}}};
  const Input sequences = {kF, {1, kMany, 1}};
  const Input numbers = {kI, many};
  rows["ctc_forward"] = {{sequences, {kI, {kMany, 0}}, numbers, numbers}, {int64_t{0}}};
  rows["ctc_grad"] = {
      {sequences, {kI, {kMany, 0}}, numbers, numbers, {kF, many}, sequences, {kF, many}},
      {int64_t{0}}};
  rows["nll_loss_elements"] = {{{kF, {kMany, 1, 1}}, {kI, {kMany, 1}}}, {}};
  rows["softmax_cross_entropy"] = {{{kF, {kMany, 1}}, {kI, many}}, {}};
  rows["softmax_cross_entropy_grad"] = {{{kF, {kMany, 1}}, {kI, many}, {kF, many}}, {}};
  rows["smooth_cross_entropy"] = {{{kF, {kMany, 1}}, {kI, many}}, {0.1}};
  rows["smooth_cross_entropy_grad"] = {{{kF, {kMany, 1}}, {kI, many}, {kF, many}}, {0.1}};
  rows["lstm_cell"] = {{{kF, {1024, 4 * 3072}}, {kF, {1024, 4 * 3072}}, {kF, {1024, 3072}}}, {}};
  rows["lstm_cell_grad"] = {{{kF, {1024, 4 * 3072}},
                             {kF, {1024, 4 * 3072}},
                             {kF, {1024, 3072}},
                             {kF, {1024, 3072}},
                             {kF, {1024, 3072}}},
                            {}};
  rows["solve"] = {{{kF, stack}, {kF, stack}}, {}};
  for (const char* op : {"cholesky", "cofactors", "eig", "eigvals"}) rows[op] = {{{kF, stack}}, {}};
  rows["qr"] = {{{kF, stack}}, {int64_t{0}}};
  rows["svd"] = {{{kF, stack}}, {false, true}};
  rows["eigh"] = {{{kF, stack}}, {int64_t{0}}};
  rows["eigvalsh"] = {{{kF, stack}}, {int64_t{0}}};
  rows["conv"] = {{{kF, image}, {kF, {2, 1, 3, 3}}, {kF, {2}}}, {Ints{1}, Ints{1}, false}};
  rows["conv_transpose"] = {{{kF, image}, {kF, {1, 2, 3, 3}}, {kF, {2}}}, {Ints{1}, Ints{1}, none}};
  rows["conv_grad_weight"] = {{{kF, image}, {kF, image}}, {Ints{3, 3}, Ints{1}, Ints{1}}};
  const Shape channels({1, 16, 384, 512});
  const Shape kernels({16, 1, 3, 3});
  rows["grouped_conv"] = {{{kF, channels}, {kF, kernels}, {kF, {16}}},
                          {Ints{1}, Ints{1}, Ints{1}, int64_t{16}}};
  rows["grouped_conv_grad_image"] = {{{kF, channels}, {kF, kernels}},
                                     {Ints{1}, Ints{1}, Ints{1}, int64_t{16}, Ints{384, 512}}};
  rows["grouped_conv_grad_weight"] = {{{kF, channels}, {kF, channels}},
                                      {Ints{1}, Ints{1}, Ints{1}, int64_t{16}, Ints{3, 3}}};
  rows["adaptive_max_index"] = {{{kF, image}}, {Ints{1000}}};
  rows["interpolate"] = {{{kF, image}}, {none, 2.0, int64_t{2}, false}};
  rows["max_pool"] = {{{kF, image}}, {Ints{3}, Ints{1}, Ints{1}, false}};
  rows["max_pool_index"] = {{{kF, image}}, {Ints{3}, Ints{1}, Ints{1}, false}};
  rows["average_pool"] = {{{kF, image}}, {Ints{3}, Ints{1}, Ints{1}, int64_t{0}}};
  rows["pool_gather"] = {{{kF, image}, {kI, image}}, {Ints{3}, Ints{1}, Ints{1}, false}};
  rows["pool_scatter"] = {{{kF, image}, {kI, image}},
                          {image_ints, Ints{3}, Ints{1}, Ints{1}, false}};
  rows["average_pool_grad"] = {{{kF, image}}, {image_ints, Ints{3}, Ints{1}, Ints{1}, int64_t{0}}};
  const Input gates = {kF, {2048, 4 * 1536}}, states = {kF, {2048, 1536}};
  const Input weights = {kF, {4 * 1536, 1536}}, biases = {kF, {4 * 1536}};
  rows["lstm_layer_forward"] = {{gates, states, states, weights, biases}, {Ints{2048}, false}};
  rows["lstm_layer_grad"] = {
      {gates, states, states, weights, biases, gates, states, states, states, states, states},
      {Ints{2048}, false}};
  const Input features = {kF, {2048}};
  rows["batch_norm_forward"] = {{{kF, matrix}, features, features}, {2e-5, none}};
  rows["batch_norm_grad"] = {{{kF, matrix}, features, {kF, matrix}}, {2e-5, none}};
  rows["fixed_batch_norm"] = {{{kF, matrix}, features, features, features, features}, {2e-5, none}};
  rows["layer_norm"] = {{{kF, matrix}, features, features}, {none, 1e-5}};
  rows["rms_norm"] = {{{kF, matrix}, features}, {none, none}};
  for (const char* op : {"layer_norm_grad", "rms_norm_grad"}) {
    rows[op] = {{{kF, matrix}, {kF, matrix}, features}, {none, 1e-5, true}};
  }
  const Input groups = {kF, {1, 2048, 1536}};
  rows["group_norm"] = {{groups, features, features}, {int64_t{1}, 1e-5}};
  rows["group_norm_grad"] = {{groups, groups, features}, {int64_t{1}, 1e-5, true}};
  rows["instance_norm"] = {{groups, features, features}, {1e-5}};
  const Input sequence = {kF, {16, 3072, 64}};
  const Input mask = {kF, {3072, 3072}};
  const Input key = {Dtype::kFloat64, {1}};
  rows["attention_forward"] = {{sequence, sequence, sequence, mask, key},
                               {false, none, false, 0.5}};
  rows["attention_grad"] = {
      {sequence, sequence, sequence, sequence, {kF, {16, 3072}}, sequence, mask, key},
      {false, none, false, 0.5, false}};
  rows["uniform_by_key"] = {{key}, {Ints{kMany, 1}, int64_t{0}, kMany}};
  for (const char* op : {"rope", "rope_grad"}) {
    rows[op] = {{{kF, matrix}, {kI, {1536}}, {kF, {1024}}}, {1e4, false}};
  }
  return rows;
}

TEST_F(StopKernelsTest, AllStop) {
  const std::map<std::string, Call> rows = Rows();
  const KernelTable& kernels = devices_.at(0).kernels();
  int checked = 0;
  for (const auto& op : OpRegistry::Global().ops()) {
    const Kernel kernel = kernels.Find(*op);
    if (kernel == nullptr || op->name == "empty") continue;  // there is nothing to do
    SCOPED_TRACE(op->name);
    Call call;
    InferResult inferred;
    const auto row = rows.find(op->name);
    if (row != rows.end()) call = row->second;
    const absl::Status valid =
        row == rows.end() ? Guess(*op, &call, &inferred) : Infer(*op, call, &inferred);
    EXPECT_TRUE(valid.ok()) << valid << ": needs another row in this test";
    if (valid.ok()) Check(*op, kernel, call, inferred);
    ++checked;
  }
  EXPECT_GE(checked, 100);
}

}  // namespace
}  // namespace chx::server
