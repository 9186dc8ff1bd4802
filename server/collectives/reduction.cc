#include "server/collectives/reduction.h"

#include <cstring>

#include "ops/error.h"

namespace chx::server {
namespace {

// As the enumeration says; the mean is divided afterwards.
constexpr const char* kKernels[] = {"add", "add", "maximum", "minimum", "multiply"};

KernelTensor Flat(char* data, Dtype dtype, int64_t count) {
  KernelTensor tensor;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.shape = Shape({count});
  tensor.strides = Strides(1, ItemSize(dtype));
  return tensor;
}

}  // namespace

absl::Status ReduceElements(GroupReduction reduction, Dtype dtype, int64_t count,
                            absl::Span<char* const> inputs, char* out, HostKernels kernels) {
  const KernelTensor result = Flat(out, dtype, count);
  if (inputs.size() == 1 && inputs[0] != out) {
    std::memcpy(out, inputs[0], static_cast<size_t>(count * ItemSize(dtype)));
  }
  for (size_t i = 1; i < inputs.size(); ++i) {
    const KernelTensor operands[] = {i == 1 ? Flat(inputs[0], dtype, count) : result,
                                     Flat(inputs[i], dtype, count)};
    CHX_RETURN_IF_ERROR(kernels(kKernels[static_cast<size_t>(reduction)], operands, result));
  }
  return absl::OkStatus();
}

absl::Status FinishReduction(GroupReduction reduction, Dtype dtype, int64_t count, int num_ranks,
                             char* out, HostKernels kernels) {
  if (reduction != GroupReduction::kMean) return absl::OkStatus();
  KernelTensor size;
  size.is_scalar = true;
  size.scalar = Scalar(static_cast<double>(num_ranks));
  size.dtype = dtype;
  const KernelTensor result = Flat(out, dtype, count);
  const KernelTensor operands[] = {result, size};
  return kernels("divide", operands, result);
}

}  // namespace chx::server
