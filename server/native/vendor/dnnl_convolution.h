// Convolutions of float32 and bfloat16 arrays by oneDNN. docs/decisions/0006 says which ones.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_CONVOLUTION_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_CONVOLUTION_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "server/engine/kernel.h"
#include "server/kernels/windows.h"

namespace chx::server::native {

enum class ConvKind { kForward, kImage, kWeight };

// x (samples, channels, image), w (features, channels / groups, kernel) and y (samples, features,
// counts).
struct ConvShape {
  ConvKind kind;  // which of y, x and w is computed from the others
  int64_t samples;
  int64_t channels;
  int64_t features;
  kernels::Windows windows;
  int64_t groups = 1;  // of channels and features, each with weights of its own
  int64_t gaps[kernels::Windows::kMaxDims] = {};  // between elements of the kernel
  bool bfloat16 = false;                          // all arrays; sums are of float32

  // Of the kernel, with its gaps.
  int64_t extent(int d) const { return (windows.kernel[d] - 1) * (gaps[d] + 1) + 1; }
  int64_t num_weights() const { return features * (channels / groups) * windows.kernel_size; }
  // Of one group, without gaps.
  bool is_plain() const {
    return groups == 1 && std::all_of(gaps, gaps + windows.ndim, [](int64_t g) { return g == 0; });
  }
  // Each channel has features of its own.
  bool is_depthwise() const { return groups > 1 && groups == channels; }
};

// Whether oneDNN is faster than products of matrices. Of bfloat16: on this processor, which has to
// have instructions for it.
bool DnnlIsFaster(const ConvShape& shape);

// Computes one of the dense arrays from the others, and adds `bias` (null for none, as it has to be
// for an image of bfloat16) to the result's channels. Returns false, with nothing done, if oneDNN
// has no fast code for this processor and shape. The cuts into tasks, and so all sums, depend on
// the shape only.
absl::StatusOr<bool> DnnlConvolution(const KernelArgs& args, const ConvShape& shape, char* x,
                                     char* w, const char* bias, char* y);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_CONVOLUTION_H_
