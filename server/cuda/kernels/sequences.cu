// Kernels of ops/defs/sequences.cc, by cuDNN. A call that it declines runs as a composition.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/dnn.h"
#include "server/cuda/vendor/dnn_rnn.h"

namespace chx::server::cuda {
namespace {

absl::Status Run(const KernelArgs& args, bool gradient) {
  Dnn* const dnn = StreamOf(args).dnn();
  if (dnn == nullptr) return absl::UnimplementedError("");
  const Dtype dtype = args.in(0).dtype;
  CHX_ASSIGN_OR_RETURN(const RnnNetwork network, MakeRnnNetwork(args.op.name, args.in(0).shape,
                                                                args.in(1).shape, args.attrs));
  absl::optional<RnnCall> call = PlanRnn(network, dtype, gradient);
  // It runs the layers in several streams of cuBLAS, whose results may then differ from run to run.
  if (!call.has_value() || args.stream.settings().cudnn_deterministic) {
    return absl::UnimplementedError("");
  }
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, args.inputs[i], dtype));
    const bool is_grad = static_cast<int>(i) >= network.num_inputs();
    (is_grad ? call->output_grads : call->inputs).push_back(dense.data);
  }
  for (const KernelTensor& out : args.outputs) call->outputs.push_back(out.data);
  CHX_ASSIGN_OR_RETURN(const bool done, dnn->Recur(args, *call));
  return done ? absl::OkStatus() : absl::UnimplementedError("");
}

absl::Status RunForward(const KernelArgs& args) { return Run(args, false); }
absl::Status RunGrad(const KernelArgs& args) { return Run(args, true); }

}  // namespace

void RegisterSequences(KernelTable& table) {
  table.Set("rnn", RunForward);
  table.Set("rnn_grad", RunGrad);
}

}  // namespace chx::server::cuda
