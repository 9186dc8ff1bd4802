// Recurrent networks by cuDNN.
#include "absl/types/optional.h"
#include "ops/error.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/cuda_status.h"
#include "server/cuda/vendor/dnn_objects.h"
#include "server/cuda/vendor/dnn_rnn.h"

namespace chx::server::cuda {
namespace {

cudnnRNNMode_t ModeOf(RnnMode mode) {
  switch (mode) {
    case RnnMode::kLstm:
      return CUDNN_LSTM;
    case RnnMode::kGru:
      return CUDNN_GRU;
    case RnnMode::kTanh:
      return CUDNN_RNN_TANH;
    case RnnMode::kRelu:
      break;
  }
  return CUDNN_RNN_RELU;
}

// float32 is not rounded to TF32, as convolutions' (dnn_library.cc).
cudnnMathType_t MathOf(Dtype dtype) {
  return IsNarrowFloat(dtype)       ? CUDNN_TENSOR_OP_MATH
         : dtype == Dtype::kFloat32 ? CUDNN_FMA_MATH
                                    : CUDNN_DEFAULT_MATH;
}

// What a call needs beside its arrays.
struct RnnMemory {
  void *work, *reserve, *weights, *weight_grads;
  void* y;  // the output; of a gradient, which computes it again, scratch memory too

  // Nothing if there is not enough.
  static absl::optional<RnnMemory> Allocate(const KernelArgs& args, const RnnCall& call,
                                            size_t work_bytes, size_t reserve_bytes,
                                            size_t weight_bytes) {
    bool enough = true;
    const auto allocate = [&](size_t bytes) -> void* {
      if (bytes == 0 || !enough) return nullptr;
      const absl::StatusOr<void*> memory = args.scratch.Allocate(bytes);
      enough = memory.ok();
      return enough ? *memory : nullptr;
    };
    const RnnNetwork& n = call.network;
    RnnMemory memory;
    memory.work = allocate(work_bytes);
    memory.reserve = allocate(reserve_bytes);
    memory.weights = allocate(weight_bytes);
    memory.weight_grads = allocate(call.gradient ? weight_bytes : 0);
    memory.y = call.gradient
                   ? allocate(n.total_rows() * n.directions * n.hidden * ItemSize(call.dtype))
                   : call.outputs[0];
    if (!enough) return absl::nullopt;
    return memory;
  }
};

}  // namespace

// The descriptors of a call.
struct RnnObjects {
  explicit RnnObjects(const DnnLibrary& dnn)
      : dropout(dnn.cudnnCreateDropoutDescriptor, dnn.cudnnDestroyDropoutDescriptor),
        network(dnn.cudnnCreateRNNDescriptor, dnn.cudnnDestroyRNNDescriptor),
        x(dnn.cudnnCreateRNNDataDescriptor, dnn.cudnnDestroyRNNDataDescriptor),
        y(dnn.cudnnCreateRNNDataDescriptor, dnn.cudnnDestroyRNNDataDescriptor),
        state(dnn),
        weight(dnn),
        bias(dnn) {}

  // All but dropout, which needs a GPU.
  cudnnStatus_t Describe(const DnnLibrary& dnn, const RnnCall& call) const {
    const cudnnStatus_t made = First({network.status(), dropout.status(), x.status(), y.status(),
                                      state.status(), weight.status(), bias.status()});
    if (made != CUDNN_STATUS_SUCCESS) return made;
    const RnnNetwork& n = call.network;
    const cudnnDataType_t type = DataType(call.dtype);
    const int hidden = static_cast<int>(n.hidden);
    const auto set_data = [&](cudnnRNNDataDescriptor_t data, int64_t width) {
      return dnn.cudnnSetRNNDataDescriptor(data, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                           n.num_steps(), static_cast<int>(n.batch),
                                           static_cast<int>(width), call.lengths.data(), nullptr);
    };
    return First(
        {dnn.cudnnSetRNNDescriptor_v8(
             network.get(), CUDNN_RNN_ALGO_STANDARD, ModeOf(n.mode), CUDNN_RNN_DOUBLE_BIAS,
             n.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
             type, WorkType(call.dtype), MathOf(call.dtype), static_cast<int>(n.input), hidden,
             hidden, n.layers, dropout.get(), CUDNN_RNN_PADDED_IO_DISABLED),
         set_data(x.get(), n.input), set_data(y.get(), n.directions * n.hidden),
         Dims(n.parts(), static_cast<int>(n.batch), &hidden, 1).Set(dnn, type, state.get())});
  }

  const Descriptor<cudnnDropoutDescriptor_t> dropout;  // of nothing; outlives what refers to it
  const Descriptor<cudnnRNNDescriptor_t> network;
  const Descriptor<cudnnRNNDataDescriptor_t> x;
  const Descriptor<cudnnRNNDataDescriptor_t> y;
  const TensorDescriptor state;
  const TensorDescriptor weight;  // for the library's description of a weight
  const TensorDescriptor bias;
};

absl::Status DescribeRnns() {
  CHX_ASSIGN_OR_RETURN(const DnnLibrary* const dnn, OpenDnn());
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64}) {
    for (int mode = 0; mode < 4; ++mode) {
      for (const int directions : {1, 2}) {
        const AttrValue attrs[] = {AttrValue(Ints{3, 2, 2}), AttrValue(2), AttrValue(directions),
                                   AttrValue(mode)};
        CHX_ASSIGN_OR_RETURN(const RnnNetwork network,
                             MakeRnnNetwork("rnn", {7, 4}, {2 * directions, 3, 5}, attrs));
        const RnnObjects objects(*dnn);
        const cudnnStatus_t status = objects.Describe(*dnn, *PlanRnn(network, dtype, false));
        if (status == CUDNN_STATUS_SUCCESS) continue;
        return DeviceError("a recurrent network of mode ", mode, ", ", directions,
                           " directions and ", DtypeName(dtype), ": ",
                           dnn->cudnnGetErrorString(status));
      }
    }
  }
  return absl::OkStatus();
}

namespace {

// Whether it describes (1, rows, columns) in C order.
bool IsMatrix(const DnnLibrary& dnn, cudnnTensorDescriptor_t descriptor, int64_t rows,
              int64_t columns) {
  cudnnDataType_t type;
  int ndim = 0;
  int dims[3] = {};
  int strides[3] = {};
  return dnn.cudnnGetTensorNdDescriptor(descriptor, 3, &type, &ndim, dims, strides) ==
             CUDNN_STATUS_SUCCESS &&
         ndim == 3 && dims[0] == 1 && dims[1] == rows && dims[2] == columns &&
         (rows == 1 || strides[1] == columns) && (columns == 1 || strides[2] == 1);
}

}  // namespace

// Copies the weights among rnn's inputs into the library's space or, with `out`, the gradients from
// there to the outputs. False if the library lays them out otherwise than expected.
absl::StatusOr<bool> CudaDnn::CopyWeights(const RnnCall& call, const RnnObjects& o, void* space,
                                          size_t bytes, bool out) const {
  const RnnNetwork& n = call.network;
  const DnnLibrary& dnn = *library_;
  const int64_t item = ItemSize(call.dtype);
  const auto copy = [&](int position, void* place, int64_t size) {
    void* const to = out ? call.outputs[position] : place;
    const void* const from = out ? place : call.inputs[position];
    return CudaStatus("copy of weights", cudaMemcpyAsync(to, from, static_cast<size_t>(size * item),
                                                         cudaMemcpyDeviceToDevice, stream_));
  };
  for (int part = 0; part < n.parts(); ++part) {
    for (int layer = 0; layer < 2 * n.gates(); ++layer) {
      const bool of_h = layer >= n.gates();
      const int gate = of_h ? layer - n.gates() : layer;
      const int64_t width = of_h ? n.hidden : n.width(part);
      void* matrix = nullptr;
      void* bias = nullptr;
      const cudnnStatus_t status =
          dnn.cudnnGetRNNWeightParams(handle_, o.network.get(), part, bytes, space, layer,
                                      o.weight.get(), &matrix, o.bias.get(), &bias);
      if (IsDeclined(status)) return false;
      CHX_RETURN_IF_ERROR(Check("the place of a recurrent network's weights", status));
      if (matrix == nullptr || bias == nullptr || !IsMatrix(dnn, o.weight.get(), n.hidden, width) ||
          !IsMatrix(dnn, o.bias.get(), n.hidden, 1)) {
        return false;
      }
      const RnnWeight weight = of_h ? RnnWeight::kFromH : RnnWeight::kFromX;
      const RnnWeight offset = of_h ? RnnWeight::kBiasOfH : RnnWeight::kBiasOfX;
      CHX_RETURN_IF_ERROR(copy(n.Position(part, weight, gate), matrix, n.hidden * width));
      CHX_RETURN_IF_ERROR(copy(n.Position(part, offset, gate), bias, n.hidden));
    }
  }
  return true;
}

absl::StatusOr<bool> CudaDnn::Recur(const KernelArgs& args, const RnnCall& call) {
  CHX_RETURN_IF_ERROR(Open(args));
  const DnnLibrary& dnn = *library_;
  const RnnNetwork& n = call.network;
  const RnnObjects o(dnn);
  const cudnnForwardMode_t mode =
      call.gradient ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  size_t work_bytes = 0, reserve_bytes = 0, weight_bytes = 0;
  cudnnStatus_t status = dnn.cudnnSetDropoutDescriptor(o.dropout.get(), handle_, 0, nullptr, 0, 0);
  if (status == CUDNN_STATUS_SUCCESS) status = o.Describe(dnn, call);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = First({dnn.cudnnGetRNNTempSpaceSizes(handle_, o.network.get(), mode, o.x.get(),
                                                  &work_bytes, &reserve_bytes),
                    dnn.cudnnGetRNNWeightSpaceSize(handle_, o.network.get(), &weight_bytes)});
  }
  if (IsDeclined(status)) return false;
  CHX_RETURN_IF_ERROR(Check("a recurrent network's descriptors", status));
  const auto limit = static_cast<uint64_t>(RnnWorkspaceLimit(call, args.stream.settings()));
  if (work_bytes > limit) return false;
  const absl::optional<RnnMemory> memory =
      RnnMemory::Allocate(args, call, work_bytes, reserve_bytes, weight_bytes);
  if (!memory.has_value()) return false;
  const auto& [work, reserve, weights, weight_grads, y] = *memory;
  CHX_ASSIGN_OR_RETURN(const bool known, CopyWeights(call, o, weights, weight_bytes, false));
  if (!known) return false;
  const bool cell = n.has_cell();
  const cudnnTensorDescriptor_t cell_state = cell ? o.state.get() : nullptr;
  const void* const x = call.inputs[0];
  const void* const hx = call.inputs[1];
  const void* const cx = cell ? call.inputs[2] : nullptr;
  void* const hy = call.gradient ? nullptr : call.outputs[1];
  void* const cy = call.gradient || !cell ? nullptr : call.outputs[2];
  // Null: from 8.9.1 on the lengths are those of the descriptors.
  status = dnn.cudnnRNNForward(handle_, o.network.get(), mode, nullptr, o.x.get(), x, o.y.get(), y,
                               o.state.get(), hx, hy, cell_state, cx, cy, weight_bytes, weights,
                               work_bytes, work, reserve_bytes, reserve);
  if (IsDeclined(status)) return false;
  CHX_RETURN_IF_ERROR(Check("recurrent network", status));
  CHX_RETURN_IF_ERROR(StreamOf(args).Launched());
  if (!call.gradient) return true;
  status = dnn.cudnnRNNBackwardData_v8(
      handle_, o.network.get(), nullptr, o.y.get(), y, call.output_grads[0], o.x.get(),
      call.outputs[0], o.state.get(), hx, call.output_grads[1], call.outputs[1], cell_state, cx,
      cell ? call.output_grads[2] : nullptr, cell ? call.outputs[2] : nullptr, weight_bytes,
      weights, work_bytes, work, reserve_bytes, reserve);
  if (IsDeclined(status)) return false;
  CHX_RETURN_IF_ERROR(Check("recurrent network's gradient", status));
  // Gradients of weights are added to what is there.
  CHX_RETURN_IF_ERROR(args.stream.Zero(weight_grads, weight_bytes));
  status = dnn.cudnnRNNBackwardWeights_v8(
      handle_, o.network.get(), CUDNN_WGRAD_MODE_ADD, nullptr, o.x.get(), x, o.state.get(), hx,
      o.y.get(), y, weight_bytes, weight_grads, work_bytes, work, reserve_bytes, reserve);
  if (IsDeclined(status)) return false;
  CHX_RETURN_IF_ERROR(Check("recurrent network's gradient of weights", status));
  CHX_ASSIGN_OR_RETURN(const bool copied, CopyWeights(call, o, weight_grads, weight_bytes, true));
  CHX_RETURN_IF_ERROR(StreamOf(args).Launched());
  return copied;
}

}  // namespace chx::server::cuda
