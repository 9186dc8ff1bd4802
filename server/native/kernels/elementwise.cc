// Kernels of the groups arithmetic, comparison and math of ops/defs: one loop per formula of
// server/kernels/elementwise_fns.h.
#include "server/kernels/elementwise_fns.h"

#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"

namespace chx::server::native {
namespace {

template <auto kRows, int kIndex>
absl::Status RunFn(const KernelArgs& args) {
  return RunLoop(args, (Loops().*kRows)[kIndex][static_cast<int>(args.in(0).dtype)]);
}

template <auto kRows, typename... Fns>
void SetAll(KernelTable& table, kernels::FnList<Fns...>) {
  using List = kernels::FnList<Fns...>;
  (table.SetBlockwise(Fns::kOp, RunFn<kRows, kernels::kFnIndex<Fns, List>>), ...);
}

absl::Status RunWhere(const KernelArgs& args) {
  return RunLoop(args, Loops().where[static_cast<int>(args.in(1).dtype)]);
}

}  // namespace

void RegisterElementwise(KernelTable& table) {
  SetAll<&LoopSet::unary_float>(table, kernels::UnaryFloatFns());
  SetAll<&LoopSet::unary_same>(table, kernels::UnarySameFns());
  SetAll<&LoopSet::unary_logical>(table, kernels::UnaryLogicalFns());
  SetAll<&LoopSet::unary_test>(table, kernels::UnaryTestFns());
  SetAll<&LoopSet::arithmetic>(table, kernels::BinaryArithmeticFns());
  SetAll<&LoopSet::binary_float>(table, kernels::BinaryFloatFns());
  SetAll<&LoopSet::comparison>(table, kernels::ComparisonFns());
  SetAll<&LoopSet::logical>(table, kernels::LogicalFns());
  table.SetBlockwise(kernels::Where::kOp, RunWhere);
}

}  // namespace chx::server::native
