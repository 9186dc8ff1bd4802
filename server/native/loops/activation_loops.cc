// Elementwise loops of activations and their gradients.
#include "server/kernels/smooth_fns.h"
#include "server/native/loops/elementwise_loops.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {

void FillActivation(LayerLoops* set) {
  FillRows<UnarySame>(set->smooth, kernels::SmoothFns(), kernels::FloatTypes());
  FillRows<BinarySame>(set->smooth_grad, kernels::SmoothGradFns(), kernels::FloatTypes());
}

}  // namespace chx::server::native::CHX_ISA
