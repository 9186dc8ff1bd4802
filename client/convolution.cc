#include "client/convolution.h"

#include "client/ops.h"

namespace chx {
namespace {

// One for each spatial dimension.
Ints Each(const Ints& values, int ndim) {
  return values.size() == 1 ? Ints(static_cast<size_t>(ndim), values[0]) : values;
}

// Sets the padding that makes the result as large as x. Where it is odd, x gets an element behind
// it.
Array PadSame(const char* name, const Array& x, const Shape& kernel, ConvOptions* options) {
  const int ndim = kernel.size() - 2;
  if (Each(options->stride, ndim) != Ints(static_cast<size_t>(ndim), 1)) {
    return Array(ValueError("[", name, "] expects stride 1 with pads_same"));
  }
  const Ints dilation = Each(options->dilation, ndim);
  if (dilation.size() != static_cast<size_t>(ndim)) {
    return Array(
        DimensionError("[", name, "] expects ", ndim, " dilations, got ", dilation.size()));
  }
  options->padding.clear();
  Ints widths = {0, 0, 0, 0};
  bool is_odd = false;
  for (int d = 0; d < ndim; ++d) {
    int64_t total = 0;
    const bool is_bad =
        __builtin_mul_overflow(dilation[static_cast<size_t>(d)], kernel[2 + d] - 1, &total);
    if (is_bad || total < 0) {
      return Array(DimensionError("[", name, "] expects positive kernels and dilations, got ",
                                  kernel.ToString()));
    }
    options->padding.push_back(total / 2);
    widths.push_back(0);
    widths.push_back(total % 2);
    is_odd = is_odd || total % 2 != 0;
  }
  return is_odd ? constant_pad(x, widths) : x;
}

Array Conv(const char* name, int ndim, const Array& x, const Array& w, const Operand& b,
           ConvOptions options) {
  if (!x.ok()) return x;
  if (!w.ok()) return w;
  if (x.shape().size() == ndim + 1) {
    return squeeze(Conv(name, ndim, expand_dims(x, 0), w, b, options), Ints{0});
  }
  if (x.shape().size() != ndim + 2 || w.shape().size() != ndim + 2) {
    return Array(DimensionError("[", name, "] expects x of ", ndim + 1, " or ", ndim + 2,
                                " dimensions and w of ", ndim + 2, ", got ", x.shape().ToString(),
                                " and ", w.shape().ToString()));
  }
  const Array padded = options.pads_same ? PadSame(name, x, w.shape(), &options) : x;
  if (options.groups == 1 && Each(options.dilation, ndim) == Ints(static_cast<size_t>(ndim), 1)) {
    return conv(padded, w, b, options.stride, options.padding);
  }
  return grouped_conv(padded, w, b, options.stride, options.padding, options.dilation,
                      options.groups);
}

}  // namespace

Array conv1d(const Array& x, const Array& w, const Operand& b, const ConvOptions& options) {
  return Conv("conv1d", 1, x, w, b, options);
}
Array conv2d(const Array& x, const Array& w, const Operand& b, const ConvOptions& options) {
  return Conv("conv2d", 2, x, w, b, options);
}
Array conv3d(const Array& x, const Array& w, const Operand& b, const ConvOptions& options) {
  return Conv("conv3d", 3, x, w, b, options);
}

}  // namespace chx
