// Kernels of ops/defs/convolution_groups.cc: by oneDNN. What they decline, the operators'
// compositions compute.
#include "ops/error.h"
#include "ops/spatial_windows.h"
#include "server/kernels/window_args.h"
#include "server/native/kernels/dnnl_operands.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/vendor/dnnl_convolution.h"

namespace chx::server::native {
namespace {

absl::Status Declined() { return absl::UnimplementedError(""); }

// Attributes 0 to 3: stride, pad, dilate, groups.
ConvShape ShapeOf(const KernelArgs& args, ConvKind kind, const Shape& x, const Shape& w,
                  const Shape& y) {
  const Dims kernel = SpatialOf(w);
  ConvShape shape = {kind, x[0], x[1], w[0],
                     kernels::MakeWindows(x, y, Ints(kernel.begin(), kernel.end()),
                                          args.attrs[0].ints(), args.attrs[1].ints())};
  const Ints& dilate = args.attrs[2].ints();
  for (int d = 0; d < kernel.size(); ++d) shape.gaps[d] = dilate[dilate.size() == 1 ? 0 : d] - 1;
  shape.groups = args.attrs[3].AsInt();
  return shape;
}

// In the dtype of `out`; false if oneDNN does not.
absl::StatusOr<bool> RunDnnl(const KernelArgs& args, ConvShape shape, const KernelTensor& out) {
  shape.bfloat16 = out.dtype == Dtype::kBfloat16;
  if (!DnnlIsFaster(shape)) return false;
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor b, Contiguous(args, args.in(1), out.dtype));
  return RunDnnlConvolution(args, shape, a, b, out);
}

// Narrow floats that it does not compute are computed in float32.
absl::Status Run(const KernelArgs& args, const ConvShape& shape) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  if (WorkDtype(out.dtype) != Dtype::kFloat32) return Declined();
  if (shape.is_plain()) return Declined();  // conv does it
  if (args.in(0).size() == 0 || args.in(1).size() == 0) return Declined();
  if (out.dtype != Dtype::kFloat16) {
    CHX_ASSIGN_OR_RETURN(const bool done, RunDnnl(args, shape, out));
    if (done) return absl::OkStatus();
    if (out.dtype == Dtype::kFloat32) return Declined();
  }
  if (!DnnlIsFaster(shape)) return Declined();
  CHX_ASSIGN_OR_RETURN(const KernelTensor target, NewTensor(args, Dtype::kFloat32, out.shape));
  CHX_ASSIGN_OR_RETURN(const bool done, RunDnnl(args, shape, target));
  if (!done) return Declined();
  RunUnary(PoolOf(args), target, out,
           Loops().cast[static_cast<int>(Dtype::kFloat32)][static_cast<int>(out.dtype)]);
  return absl::OkStatus();
}

absl::Status RunGroupsForward(const KernelArgs& args) {
  return Run(args, ShapeOf(args, ConvKind::kForward, args.in(0).shape, args.in(1).shape,
                           args.out(0).shape));
}
absl::Status RunGradImage(const KernelArgs& args) {
  return Run(
      args, ShapeOf(args, ConvKind::kImage, args.out(0).shape, args.in(1).shape, args.in(0).shape));
}
absl::Status RunGradWeight(const KernelArgs& args) {
  return Run(args, ShapeOf(args, ConvKind::kWeight, args.in(0).shape, args.out(0).shape,
                           args.in(1).shape));
}

}  // namespace

void RegisterConvolutionGroups(KernelTable& table) {
  table.Set("grouped_conv", RunGroupsForward);
  table.Set("grouped_conv_grad_image", RunGradImage);
  table.Set("grouped_conv_grad_weight", RunGradWeight);
}

}  // namespace chx::server::native
