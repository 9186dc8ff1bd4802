// Kernels of ops/defs/convolution_groups.cc: by oneDNN. What they decline, the operators'
// compositions compute.
#include "ops/error.h"
#include "ops/spatial_windows.h"
#include "server/kernels/window_args.h"
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

// Dense float32; narrow floats are computed in it.
absl::StatusOr<float*> Dense(const KernelArgs& args, const KernelTensor& in) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, in, Dtype::kFloat32));
  return reinterpret_cast<float*>(dense.data);
}

absl::Status Run(const KernelArgs& args, const ConvShape& shape) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  if (WorkDtype(out.dtype) != Dtype::kFloat32) return Declined();
  if (shape.is_plain()) return Declined();  // conv does it
  if (args.in(0).size() == 0 || args.in(1).size() == 0 || !DnnlIsFaster(shape)) return Declined();
  CHX_ASSIGN_OR_RETURN(float* const a, Dense(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(float* const b, Dense(args, args.in(1)));
  float* bias = nullptr;
  if (kernels::HasBias(args)) {
    CHX_ASSIGN_OR_RETURN(bias, Dense(args, args.in(2)));
  }
  KernelTensor target = out;
  if (out.dtype != Dtype::kFloat32) {
    CHX_ASSIGN_OR_RETURN(target, NewTensor(args, Dtype::kFloat32, out.shape));
  }
  float* const result = reinterpret_cast<float*>(target.data);
  absl::StatusOr<bool> done = false;
  switch (shape.kind) {
    case ConvKind::kForward:
      done = DnnlConvolution(args, shape, a, b, bias, result);
      break;
    case ConvKind::kImage:
      done = DnnlConvolution(args, shape, result, b, nullptr, a);
      break;
    case ConvKind::kWeight:
      done = DnnlConvolution(args, shape, a, result, nullptr, b);
      break;
  }
  CHX_RETURN_IF_ERROR(done.status());
  if (!*done) return Declined();
  if (out.dtype != Dtype::kFloat32) {
    RunUnary(PoolOf(args), target, out,
             Loops().cast[static_cast<int>(Dtype::kFloat32)][static_cast<int>(out.dtype)]);
  }
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
