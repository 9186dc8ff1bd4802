// Kernels of ops/defs/loss_elementwise.cc. What they decline, the operators' compositions compute.
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"

namespace chx::server::native {
namespace {

// An input as the result's elements see it.
absl::StatusOr<KernelTensor> AsResult(const KernelArgs& args, const KernelTensor& in) {
  const KernelTensor& out = args.out(0);
  KernelTensor tensor = in;
  if (in.dtype != out.dtype) {
    CHX_ASSIGN_OR_RETURN(tensor, Contiguous(args, in, out.dtype));
  }
  const int missing = out.ndim() - in.ndim();
  Strides strides(out.ndim(), 0);
  for (int d = 0; d < in.ndim(); ++d) {
    if (in.shape[d] != 1) strides[missing + d] = tensor.strides[d];
  }
  tensor.shape = out.shape;
  tensor.strides = strides;
  return tensor;
}

// The inputs, and delta as the last operand of a loop.
template <Loop HuberLoops::*kLoop>
absl::Status RunHuber(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const Loop loop = Loops().layers->huber[static_cast<int>(out.dtype)].*kLoop;
  if (loop == nullptr) return absl::UnimplementedError("not of this dtype");
  if (out.size() == 0) return absl::OkStatus();
  absl::InlinedVector<KernelTensor, 4> operands;
  for (const KernelTensor& input : args.inputs) {
    CHX_ASSIGN_OR_RETURN(operands.emplace_back(), AsResult(args, input));
  }
  KernelTensor delta;
  delta.dtype = out.dtype;
  delta.is_scalar = true;
  delta.scalar = Scalar(args.attrs[0].AsFloat());
  operands.push_back(delta);
  return RunLoop({args.op, args.stream, args.scratch, operands, args.outputs, args.attrs}, loop);
}

}  // namespace

void RegisterLossElementwise(KernelTable& table) {
  table.Set("huber_loss", RunHuber<&HuberLoops::loss>);
  table.Set("huber_loss_grad", RunHuber<&HuberLoops::grad>);
}

}  // namespace chx::server::native
