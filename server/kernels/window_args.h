// The windows of convolution and pooling operators, from the arguments of their kernels.
#ifndef CHX_SERVER_KERNELS_WINDOW_ARGS_H_
#define CHX_SERVER_KERNELS_WINDOW_ARGS_H_

#include "ops/spatial_windows.h"
#include "server/engine/kernel.h"
#include "server/kernels/windows.h"

namespace chx::server::kernels {

// conv and conv_transpose, whose input 1 is the weight (features, channels, kernel...), with the
// shapes of their image and features.
inline Windows ConvWindows(const KernelArgs& args, const Shape& image, const Shape& features) {
  const Dims kernel(args.in(1).shape.span().subspan(2));
  return MakeWindows(image, features, Ints(kernel.begin(), kernel.end()), args.attrs[0].ints(),
                     args.attrs[1].ints());
}

// conv_grad_weight, whose inputs are the image and the features' gradient.
inline Windows ConvGradWeightWindows(const KernelArgs& args) {
  return MakeWindows(args.in(0).shape, args.in(1).shape, args.attrs[0].ints(), args.attrs[1].ints(),
                     args.attrs[2].ints());
}

// Pooling, whose attributes from `first` on are ksize, stride and pad.
inline Windows PoolWindows(const KernelArgs& args, const Shape& image, const Shape& counts,
                           int first) {
  const Ints& ksize = args.attrs[first].ints();
  const AttrValue& stride = args.attrs[first + 1];
  return MakeWindows(image, counts, ksize, stride.has_value() ? stride.ints() : ksize,
                     args.attrs[first + 2].ints());
}

// What averages divide the sums of their windows by, if it is the same for all: with the attributes
// above and then pad_mode. 0: by what each window has inside the image.
inline double PoolDivisor(const KernelArgs& args, const Windows& windows, int first) {
  const bool ignore = args.attrs[first + 3].AsInt() == static_cast<int64_t>(PadMode::kIgnore);
  return ignore && windows.HasPadding() ? 0 : static_cast<double>(windows.kernel_size);
}

// Whether conv or conv_transpose has its optional input 2, the bias (features,).
inline bool HasBias(const KernelArgs& args) { return args.inputs.size() > 2 && args.in(2).present; }

// That bias as a view that broadcasts along the channels of an array of `ndim` dimensions.
inline KernelTensor BiasOfChannels(const KernelArgs& args, int ndim) {
  KernelTensor bias = args.in(2);
  for (int d = 2; d < ndim; ++d) {
    bias.shape.push_back(1);
    bias.strides.push_back(0);
  }
  return bias;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_WINDOW_ARGS_H_
