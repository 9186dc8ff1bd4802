// Elementwise comparisons, tests and logic: the results are bools.
#include "server/native/loops/elementwise_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {

void FillComparison(LoopSet* set) {
  FillRows<BinaryToBool>(set->comparison, kernels::ComparisonFns(), kernels::AllTypes());
  FillRows<BinaryToBool>(set->logical, kernels::LogicalFns(), kernels::TypeList<kernels::Bool>());
  FillRows<UnaryToBool>(set->unary_logical, kernels::UnaryLogicalFns(),
                        kernels::TypeList<kernels::Bool>());
  FillRows<UnaryToBool>(set->unary_test, kernels::UnaryTestFns(), kernels::AllTypes());
}

}  // namespace chx::server::native::CHX_ISA
