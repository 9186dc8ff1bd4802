// Elementwise arithmetic.
#include "server/native/loops/elementwise_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {

void FillArithmetic(LoopSet* set) {
  FillRows<UnarySame>(set->unary_same, kernels::UnarySameFns(), kernels::AllTypes());
  FillRows<BinarySame>(set->arithmetic, kernels::BinaryArithmeticFns(), kernels::AllTypes());
}

}  // namespace chx::server::native::CHX_ISA
