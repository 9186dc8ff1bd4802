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

// Squares, and what their gradients make of powers, are too frequent to be computed as powers. They
// have the same bits.
absl::Status RunPower(const KernelArgs& args) {
  using List = kernels::BinaryArithmeticFns;
  const KernelTensor& x = args.in(0);
  const KernelTensor& exponent = args.in(1);
  if (exponent.is_scalar && !x.is_scalar && IsFloat(x.dtype)) {
    const auto run = [&](absl::Span<const KernelTensor> inputs, Loop loop) {
      return RunLoop({args.op, args.stream, args.scratch, inputs, args.outputs, {}}, loop);
    };
    if (exponent.scalar.AsDouble() == 2) {
      constexpr int kMultiply = kernels::kFnIndex<kernels::Multiply, List>;
      return run({x, x}, Loops().arithmetic[kMultiply][static_cast<int>(x.dtype)]);
    }
    if (exponent.scalar.AsDouble() == 1) return run({x}, CastLoop(x.dtype, x.dtype));
  }
  return RunFn<&LoopSet::arithmetic, kernels::kFnIndex<kernels::Power, List>>(args);
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
  table.SetBlockwise(kernels::Power::kOp, RunPower);
  SetAll<&LoopSet::binary_float>(table, kernels::BinaryFloatFns());
  SetAll<&LoopSet::comparison>(table, kernels::ComparisonFns());
  SetAll<&LoopSet::logical>(table, kernels::LogicalFns());
  table.SetBlockwise(kernels::Where::kOp, RunWhere);
}

}  // namespace chx::server::native
