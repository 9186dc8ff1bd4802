// Convolutions of float32 arrays by oneDNN. docs/decisions/0006 says which ones.
#ifndef CHX_SERVER_NATIVE_DNNL_CONVOLUTION_H_
#define CHX_SERVER_NATIVE_DNNL_CONVOLUTION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/engine/kernel.h"
#include "server/kernels/windows.h"

namespace chx::server::native {

enum class ConvKind { kForward, kImage, kWeight };

// x (samples, channels, image), w (features, channels, kernel) and y (samples, features, counts).
struct ConvShape {
  ConvKind kind;  // which of y, x and w is computed from the others
  int64_t samples;
  int64_t channels;
  int64_t features;
  kernels::Windows windows;
};

// Whether oneDNN is faster than products of matrices.
bool DnnlIsFaster(const ConvShape& shape);

// Computes one of the dense arrays from the others; `bias`, null for none, is added for each of the
// result's channels. False if oneDNN has nothing good for this processor and shape: nothing is done
// then. Where work is cut into tasks depends on the shape only, and so do all sums.
absl::StatusOr<bool> DnnlConvolution(const KernelArgs& args, const ConvShape& shape, float* x,
                                     float* w, const float* bias, float* y);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_DNNL_CONVOLUTION_H_
