// Convolutions by PyTorch's names and arguments; chx/ops.h has `conv` and `grouped_conv`.
#ifndef CHX_CLIENT_CONVOLUTION_H_
#define CHX_CLIENT_CONVOLUTION_H_

#include "client/array.h"
#include "ops/attr.h"

namespace chx {

// Of each, a number, or one for each spatial dimension.
struct ConvOptions {
  Ints stride = {1};
  Ints padding = {0};      // zeros on either side
  bool pads_same = false;  // instead, for a result of x's size: PyTorch's padding "same"
  Ints dilation = {1};
  int64_t groups = 1;  // of channels
};

// The cross-correlation of x (N, C, L), or (C, L), and kernels w (K, C / groups, k), plus b (K,).
// Integers wrap around. kDimension: shapes that do not fit; kValue: pads_same with a stride.
Array conv1d(const Array& x, const Array& w, const Operand& b = Operand(),
             const ConvOptions& options = ConvOptions());
// Of images (N, C, H, W), or (C, H, W), and kernels (K, C / groups, kh, kw).
Array conv2d(const Array& x, const Array& w, const Operand& b = Operand(),
             const ConvOptions& options = ConvOptions());
// Of volumes (N, C, D, H, W), or (C, D, H, W), and kernels (K, C / groups, kd, kh, kw).
Array conv3d(const Array& x, const Array& w, const Operand& b = Operand(),
             const ConvOptions& options = ConvOptions());

}  // namespace chx

#endif  // CHX_CLIENT_CONVOLUTION_H_
