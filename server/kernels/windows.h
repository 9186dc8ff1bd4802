// Windows that slide over spatial dimensions, for convolution and pooling. Positions are in
// elements of dense arrays.
#ifndef CHX_SERVER_KERNELS_WINDOWS_H_
#define CHX_SERVER_KERNELS_WINDOWS_H_

#include <cstdint>

#include "ops/array_spec.h"
#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// Plain data. Window o of a dimension begins at element o * stride - pad of it.
struct Windows {
  static constexpr int kMaxDims = kMaxNdim - 2;

  int ndim = 0;
  int64_t image[kMaxDims];
  int64_t counts[kMaxDims];
  int64_t kernel[kMaxDims];
  int64_t stride[kMaxDims];
  int64_t pad[kMaxDims];
  int64_t image_size = 1;
  int64_t count = 1;
  int64_t kernel_size = 1;

  void Append(int64_t image_dim, int64_t counts_dim, int64_t kernel_dim, int64_t stride_dim,
              int64_t pad_dim) {
    image[ndim] = image_dim;
    counts[ndim] = counts_dim;
    kernel[ndim] = kernel_dim;
    stride[ndim] = stride_dim;
    pad[ndim] = pad_dim;
    image_size *= image_dim;
    count *= counts_dim;
    kernel_size *= kernel_dim;
    ++ndim;
  }

  bool HasPadding() const {
    for (int d = 0; d < ndim; ++d) {
      if (pad[d] != 0) return true;
    }
    return false;
  }

  // Whether each window is the one element of its position.
  bool IsIdentity() const {
    for (int d = 0; d < ndim; ++d) {
      if (kernel[d] != 1 || stride[d] != 1 || pad[d] != 0 || image[d] != counts[d]) return false;
    }
    return true;
  }

  // The windows [first, first + rows) along the first dimension. Their padding may be negative.
  Windows Rows(int64_t first, int64_t rows) const {
    Windows part = *this;
    part.pad[0] -= first * stride[0];
    part.counts[0] = rows;
    part.count = count / counts[0] * rows;
    return part;
  }

  // The image's position of element k of window o; -1 in the padding.
  CHX_HD int64_t PositionOf(int64_t o, int64_t k) const {
    int64_t position = 0;
    int64_t scale = 1;
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t rest_o = o / counts[d];
      const int64_t rest_k = k / kernel[d];
      const int64_t at = (o - rest_o * counts[d]) * stride[d] - pad[d] + (k - rest_k * kernel[d]);
      if (at < 0 || at >= image[d]) return -1;
      position += at * scale;
      scale *= image[d];
      o = rest_o;
      k = rest_k;
    }
    return position;
  }

  // How many elements of the image window o of dimension d has, counted from its start there to its
  // end, as Chainer does: negative where the window is beyond.
  CHX_HD int64_t InsideAlong(int d, int64_t o) const {
    const int64_t begin = o * stride[d] - pad[d];
    const int64_t end = begin + kernel[d] < image[d] ? begin + kernel[d] : image[d];
    return end - (begin < 0 ? 0 : begin);
  }

  // Their product over the dimensions below `last`, for window o of those.
  CHX_HD double Inside(int64_t o, int last) const {
    double product = 1;
    for (int d = last - 1; d >= 0; --d) {
      const int64_t rest = o / counts[d];
      product *= static_cast<double>(InsideAlong(d, o - rest * counts[d]));
      o = rest;
    }
    return product;
  }

  // fn(position) for each element of window o that is inside the image, in C order.
  template <typename Fn>
  CHX_HD void ForElements(int64_t o, Fn&& fn) const {
    int64_t first[kMaxDims];
    int64_t last[kMaxDims];
    int64_t at[kMaxDims];
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t rest = o / counts[d];
      const int64_t begin = (o - rest * counts[d]) * stride[d] - pad[d];
      first[d] = begin < 0 ? 0 : begin;
      last[d] = begin + kernel[d] < image[d] ? begin + kernel[d] : image[d];
      if (first[d] >= last[d]) return;
      at[d] = first[d];
      o = rest;
    }
    Walk(first, last, image, at, fn);
  }

  // fn(o, k) for each element k of a window o that lies at the image's position.
  template <typename Fn>
  CHX_HD void ForWindowsAt(int64_t position, Fn&& fn) const {
    int64_t where[kMaxDims];  // from the first window's begin
    int64_t first[kMaxDims];
    int64_t last[kMaxDims];
    int64_t at[kMaxDims];
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t rest = position / image[d];
      where[d] = position - rest * image[d] + pad[d];
      position = rest;
      if (where[d] < 0) return;  // with negative padding
      const int64_t before = where[d] - kernel[d] + 1;
      first[d] = before <= 0 ? 0 : (before + stride[d] - 1) / stride[d];
      last[d] = where[d] / stride[d] + 1 < counts[d] ? where[d] / stride[d] + 1 : counts[d];
      if (first[d] >= last[d]) return;
      at[d] = first[d];
    }
    Walk(first, last, counts, at, [&](int64_t o) {
      int64_t k = 0;
      for (int d = 0; d < ndim; ++d) k = k * kernel[d] + where[d] - at[d] * stride[d];
      fn(o, k);
    });
  }

 private:
  // fn(linear position within `dims`) for each `at` between first and last.
  template <typename Fn>
  CHX_HD void Walk(const int64_t* first, const int64_t* last, const int64_t* dims, int64_t* at,
                   Fn&& fn) const {
    const int inner = ndim - 1;
    for (;;) {
      int64_t row = 0;
      for (int d = 0; d < inner; ++d) row = (row + at[d]) * dims[d + 1];
      for (at[inner] = first[inner]; at[inner] < last[inner]; ++at[inner]) fn(row + at[inner]);
      int d = inner - 1;
      while (d >= 0 && ++at[d] == last[d]) {
        at[d] = first[d];
        --d;
      }
      if (d < 0) return;
    }
  }
};

// The windows of kernels whose attributes inference has checked: each attribute's numbers are one
// for each dimension, or one for all. Image and counts are shapes (samples, channels, spatial...);
// without spatial dimensions they are as if with one of one element.
template <typename Numbers>
Windows MakeWindows(const Shape& image, const Shape& counts, const Numbers& kernel,
                    const Numbers& stride, const Numbers& pad) {
  Windows windows;
  const auto number = [](const Numbers& numbers, int d) {
    return numbers.size() == 1 ? numbers[0] : numbers[d];
  };
  if (image.size() == 2) windows.Append(1, 1, 1, 1, 0);
  for (int d = 0; d < image.size() - 2; ++d) {
    windows.Append(image[d + 2], counts[d + 2], number(kernel, d), number(stride, d),
                   number(pad, d));
  }
  return windows;
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_WINDOWS_H_
