// Kernels of ops/defs/normalization.cc, by cuDNN. A call that it declines runs as a composition.
#include <utility>

#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/vendor/dnn.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/indexer.h"
#include "server/kernels/norm_layout.h"

namespace chx::server::cuda {
namespace {

template <typename T>
struct Scale {
  T* x;
  T factor;

  CHX_HD void operator()(int64_t i) const { x[i] *= factor; }
};

absl::Status Decline() { return absl::UnimplementedError(""); }

// The call for inputs x, gamma, ... and attributes eps, ..., axis; nothing if cuDNN declines. x is
// cast to `dtype`, gamma to `wide`, which is the dtype that the composition computes in.
absl::StatusOr<absl::optional<NormCall>> Plan(const KernelArgs& args, NormPart part, Dtype dtype,
                                              Dtype wide) {
  const KernelTensor& x = args.in(0);
  const AttrValue& axis = args.attrs.back();
  uint32_t axes = 1;
  if (axis.has_value()) {
    CHX_ASSIGN_OR_RETURN(axes, rules::NormalizeAxes(args.op.name, axis, x.ndim()));
  }
  absl::optional<NormCall> call;
  kernels::NormLayout layout;
  if (StreamOf(args).dnn() == nullptr || wide != kernels::MomentsDtype(dtype) ||
      !kernels::MakeNormLayout(x.shape, axes, &layout)) {
    return call;
  }
  call = PlanNorm(part, dtype, layout, args.attrs[0].AsFloat());
  if (!call.has_value()) return call;
  CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, x, dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gamma, Contiguous(args, args.in(1), wide));
  call->x = dense.data;
  call->gamma = gamma.data;
  call->out = args.out(0).data;
  return call;
}

absl::Status Call(const KernelArgs& args, const NormCall& call) {
  CHX_ASSIGN_OR_RETURN(const bool done, StreamOf(args).dnn()->Normalize(args, call));
  return done ? absl::OkStatus() : Decline();
}

// x, gamma, beta; y, mean, variance.
absl::Status RunForward(const KernelArgs& args) {
  const KernelTensor& mean = args.out(1);
  const KernelTensor& variance = args.out(2);
  CHX_ASSIGN_OR_RETURN(absl::optional<NormCall> call,
                       Plan(args, NormPart::kBatch, args.in(0).dtype, mean.dtype));
  if (!call.has_value()) return Decline();
  CHX_ASSIGN_OR_RETURN(const KernelTensor beta, Contiguous(args, args.in(2), mean.dtype));
  call->beta = beta.data;
  call->mean = mean.data;
  call->variance = variance.data;
  for (const KernelTensor* const moments : {&mean, &variance}) {
    const int64_t bytes = moments->size() * ItemSize(moments->dtype);
    CHX_RETURN_IF_ERROR(args.stream.Zero(moments->data, bytes));
  }
  CHX_RETURN_IF_ERROR(Call(args, *call));
  // From the unbiased variance to the variance of the batch.
  const double count = static_cast<double>(call->outer) * call->inner;
  const double factor = (count - 1) / count;
  if (variance.dtype == Dtype::kFloat64) {
    return ForEach(args, variance.size(),
                   Scale<double>{reinterpret_cast<double*>(variance.data), factor});
  }
  return ForEach(args, variance.size(),
                 Scale<float>{reinterpret_cast<float*>(variance.data), static_cast<float>(factor)});
}

// The memory that a tensor's elements are in: [begin, end).
std::pair<const char*, const char*> Extent(const KernelTensor& tensor) {
  std::pair<const char*, const char*> extent(tensor.data, tensor.data + ItemSize(tensor.dtype));
  for (int i = 0; i < tensor.ndim(); ++i) {
    const int64_t last = (tensor.shape[i] - 1) * tensor.strides[i];
    (last < 0 ? extent.first : extent.second) += last;
  }
  return extent;
}

// Whether cuDNN can write the running moments where they are: dense, and apart from all that it
// reads.
bool MayUpdate(const KernelArgs& args, Dtype wide) {
  for (int i = 3; i < 5; ++i) {
    const KernelTensor& running = args.in(i);
    if (running.dtype != wide || running.size() == 0 ||
        !kernels::IsContiguous(running.shape, running.strides, ItemSize(wide))) {
      return false;
    }
    for (int j = 0; j < i; ++j) {
      const auto [begin, end] = Extent(args.in(j));
      if (args.in(j).size() > 0 && begin < Extent(running).second && Extent(running).first < end) {
        return false;
      }
    }
  }
  return true;
}

// x, gamma, beta, running mean, running variance; y. The composition has ten kernels.
absl::Status RunTraining(const KernelArgs& args) {
  const Dtype dtype = args.in(0).dtype;
  const Dtype wide = PromoteTypes(PromoteTypes(dtype, args.in(1).dtype), Dtype::kFloat32);
  if (!MayUpdate(args, wide)) return Decline();
  CHX_ASSIGN_OR_RETURN(absl::optional<NormCall> call, Plan(args, NormPart::kBatch, dtype, wide));
  if (!call.has_value()) return Decline();
  CHX_ASSIGN_OR_RETURN(const KernelTensor beta, Contiguous(args, args.in(2), wide));
  call->beta = beta.data;
  call->mean = args.in(3).data;
  call->variance = args.in(4).data;
  call->factor = 1 - args.attrs[1].AsFloat();
  return Call(args, *call);
}

// x, gamma, gy; gx, ggamma, gbeta.
absl::Status RunGrad(const KernelArgs& args) {
  const Dtype wide = args.out(0).dtype;
  CHX_ASSIGN_OR_RETURN(absl::optional<NormCall> call, Plan(args, NormPart::kGradient, wide, wide));
  if (!call.has_value()) return Decline();
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(2), wide));
  call->gy = gy.data;
  call->ggamma = args.out(1).data;
  call->gbeta = args.out(2).data;
  return Call(args, *call);
}

// x, gamma, beta, mean, var; y.
absl::Status RunFixed(const KernelArgs& args) {
  const Dtype dtype = args.in(0).dtype;
  const Dtype wide = PromoteTypes(PromoteTypes(dtype, args.in(1).dtype), Dtype::kFloat32);
  CHX_ASSIGN_OR_RETURN(absl::optional<NormCall> call, Plan(args, NormPart::kFixed, dtype, wide));
  if (!call.has_value()) return Decline();
  CHX_ASSIGN_OR_RETURN(const KernelTensor beta, Contiguous(args, args.in(2), wide));
  CHX_ASSIGN_OR_RETURN(const KernelTensor mean, Contiguous(args, args.in(3), wide));
  CHX_ASSIGN_OR_RETURN(const KernelTensor variance, Contiguous(args, args.in(4), wide));
  call->beta = beta.data;
  call->mean = mean.data;
  call->variance = variance.data;
  return Call(args, *call);
}

}  // namespace

void RegisterNormalization(KernelTable& table) {
  table.Set("batch_norm", RunTraining);
  table.Set("batch_norm_forward", RunForward);
  table.Set("batch_norm_grad", RunGrad);
  table.Set("fixed_batch_norm", RunFixed);
}

}  // namespace chx::server::cuda
