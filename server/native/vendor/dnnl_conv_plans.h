// Compiled convolutions of oneDNN, kept by their shapes.
#ifndef CHX_SERVER_NATIVE_VENDOR_DNNL_CONV_PLANS_H_
#define CHX_SERVER_NATIVE_VENDOR_DNNL_CONV_PLANS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/native/vendor/dnnl_convolution.h"
#include "server/native/vendor/dnnl_primitive.h"

namespace chx::server::native {

// A part of the work: some samples, and some of the features (of the channels where the image is
// computed; of both, with their weights, where the convolution itself is one of groups).
struct ConvPiece {
  int64_t samples;
  int64_t channels;
  int64_t features;
  int64_t groups;  // of the convolution
};

// One of the three arrays: as it lies in memory, and as the primitive wants it.
struct ConvSide {
  DnnlDesc plain;
  DnnlDesc inner;
  DnnlPrimitive reorder;  // null: both are the same

  size_t bytes() const { return reorder ? DnnlBytes(inner) : 0; }
};

struct ConvPlan {
  DnnlPrimitive convolution;
  ConvSide image;
  ConvSide weight;
  ConvSide features;
  DnnlDesc bias;
  DnnlDesc scratchpad;
};

// Null if oneDNN does not support it. Thread-safe.
std::shared_ptr<const ConvPlan> PlanOf(const ConvShape& shape, const ConvPiece& piece, bool biased);

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_VENDOR_DNNL_CONV_PLANS_H_
