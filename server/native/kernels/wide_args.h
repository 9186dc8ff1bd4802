// Calls in which float32 stands for floats of 16 bits.
#ifndef CHX_SERVER_NATIVE_KERNELS_WIDE_ARGS_H_
#define CHX_SERVER_NATIVE_KERNELS_WIDE_ARGS_H_

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"
#include "server/engine/kernel.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"

namespace chx::server::native {

// run(args) with dense copies in float32 of inputs of narrow floats, and outputs in float32 that
// are rounded at the end. For kernels that look at several elements, most of which exist in float32
// and float64 only.
template <typename Run>
absl::Status RunWide(const KernelArgs& args, Run&& run) {
  const auto is_narrow = [](const KernelTensor& tensor) {
    return tensor.present && !tensor.is_scalar && IsNarrowFloat(tensor.dtype);
  };
  if (std::none_of(args.inputs.begin(), args.inputs.end(), is_narrow) &&
      std::none_of(args.outputs.begin(), args.outputs.end(), is_narrow)) {
    return run(args);
  }
  absl::InlinedVector<KernelTensor, 8> inputs(args.inputs.begin(), args.inputs.end());
  absl::InlinedVector<KernelTensor, 4> outputs(args.outputs.begin(), args.outputs.end());
  for (KernelTensor& input : inputs) {
    if (!is_narrow(input)) continue;
    CHX_ASSIGN_OR_RETURN(input, Contiguous(args, input, Dtype::kFloat32));
  }
  for (KernelTensor& output : outputs) {
    if (!is_narrow(output)) continue;
    CHX_ASSIGN_OR_RETURN(output, NewTensor(args, Dtype::kFloat32, output.shape));
  }
  CHX_RETURN_IF_ERROR(
      run(KernelArgs{args.op, args.stream, args.scratch, inputs, outputs, args.attrs}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const KernelTensor& to = args.outputs[i];
    if (outputs[i].dtype == to.dtype) continue;
    RunUnary(PoolOf(args), outputs[i], to,
             Loops().cast[static_cast<int>(outputs[i].dtype)][static_cast<int>(to.dtype)]);
  }
  return absl::OkStatus();
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_WIDE_ARGS_H_
