// Operands of convolutions for oneDNN.
#ifndef CHX_SERVER_NATIVE_KERNELS_DNNL_OPERANDS_H_
#define CHX_SERVER_NATIVE_KERNELS_DNNL_OPERANDS_H_

#include "absl/status/statusor.h"
#include "ops/error.h"
#include "server/kernels/window_args.h"
#include "server/native/loops/contiguous.h"
#include "server/native/vendor/dnnl_convolution.h"

namespace chx::server::native {

// Computes `out` by oneDNN from operands of the call, in its order, that are dense and of the dtype
// of `out`, and the bias that it has. False, with nothing done, if oneDNN has no fast code for it.
inline absl::StatusOr<bool> RunDnnlConvolution(const KernelArgs& args, const ConvShape& shape,
                                               const KernelTensor& a, const KernelTensor& b,
                                               const KernelTensor& out) {
  const char* bias = nullptr;
  if (kernels::HasBias(args)) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, args.in(2), out.dtype));
    bias = dense.data;
  }
  switch (shape.kind) {
    case ConvKind::kForward:
      return DnnlConvolution(args, shape, a.data, b.data, bias, out.data);
    case ConvKind::kImage:
      return DnnlConvolution(args, shape, out.data, b.data, bias, a.data);
    case ConvKind::kWeight:
      return DnnlConvolution(args, shape, a.data, out.data, nullptr, b.data);
  }
  return false;
}

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_KERNELS_DNNL_OPERANDS_H_
