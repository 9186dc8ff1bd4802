// Batch normalization by cuDNN.
#include "ops/error.h"
#include "server/cuda/loops/kernel_stream.h"
#include "server/cuda/vendor/dnn_objects.h"

namespace chx::server::cuda {

absl::StatusOr<bool> CudaDnn::Normalize(const KernelArgs& args, const NormCall& call) {
  CHX_RETURN_IF_ERROR(Open(args));
  const DnnLibrary& dnn = *library_;
  const TensorDescriptor x(dnn);
  const TensorDescriptor gamma(dnn);
  constexpr const char* kDescriptors = "a normalization's descriptors";
  CHX_RETURN_IF_ERROR(Check(kDescriptors, First({x.status(), gamma.status()})));
  // Without inner dimensions both modes mean the same; PER_ACTIVATION is made for that case.
  const cudnnBatchNormMode_t mode =
      call.inner == 1 ? CUDNN_BATCHNORM_PER_ACTIVATION : CUDNN_BATCHNORM_SPATIAL;
  const int spatial[] = {call.inner, 1};
  const cudnnStatus_t set =
      Dims(call.outer, call.channels, spatial, 2).Set(dnn, DataType(call.dtype), x.get());
  if (IsDeclined(set)) return false;
  CHX_RETURN_IF_ERROR(Check(kDescriptors, set));
  CHX_RETURN_IF_ERROR(
      Check(kDescriptors, dnn.cudnnDeriveBNTensorDescriptor(gamma.get(), x.get(), mode)));
  const Factor one(call.dtype, 1);
  const Factor zero(call.dtype, 0);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  switch (call.part) {
    case NormPart::kBatch:
      status = dnn.cudnnBatchNormalizationForwardTraining(
          handle_, mode, one.get(), zero.get(), x.get(), call.x, x.get(), call.out, gamma.get(),
          call.gamma, call.beta, call.factor, call.mean, call.variance, call.eps, nullptr, nullptr);
      break;
    case NormPart::kFixed:
      status = dnn.cudnnBatchNormalizationForwardInference(
          handle_, mode, one.get(), zero.get(), x.get(), call.x, x.get(), call.out, gamma.get(),
          call.gamma, call.beta, call.mean, call.variance, call.eps);
      break;
    case NormPart::kGradient:
      status = dnn.cudnnBatchNormalizationBackward(
          handle_, mode, one.get(), zero.get(), one.get(), zero.get(), x.get(), call.x, x.get(),
          call.gy, x.get(), call.out, gamma.get(), call.gamma, call.ggamma, call.gbeta, call.eps,
          nullptr, nullptr);
      break;
  }
  if (IsDeclined(status)) return false;
  CHX_RETURN_IF_ERROR(Check("batch normalization", status));
  CHX_RETURN_IF_ERROR(StreamOf(args).Launched());
  return true;
}

}  // namespace chx::server::cuda
