// Elementwise functions of floats.
#include "server/native/loops/elementwise_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {

void FillMath(LoopSet* set) {
  FillRows<UnarySame>(set->unary_float, kernels::UnaryFloatFns(), kernels::FloatTypes());
  FillRows<BinarySame>(set->binary_float, kernels::BinaryFloatFns(), kernels::FloatTypes());
}

}  // namespace chx::server::native::CHX_ISA
