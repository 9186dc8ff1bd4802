// The part of elementwise.cu with two operands of a dtype and a result of bools.
#include "server/cuda/elementwise.h"
#include "server/cuda/groups.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

using kernels::Bool;

// The dtype of the operands; one of them may be a scalar, which has it too.
template <typename Fn>
absl::Status RunComparison(const KernelArgs& args) {
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, Bool>, true, Bool, T, T>(args, args.out(0), args.in(0),
                                                                args.in(1));
  });
}

template <typename Fn>
absl::Status RunLogical(const KernelArgs& args) {
  return RunElementwise<OfStored<Fn, Bool>, true, Bool, Bool, Bool>(args, args.out(0), args.in(0),
                                                                    args.in(1));
}

template <typename... Fns>
void SetComparison(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunComparison<Fns>), ...);
}
template <typename... Fns>
void SetLogical(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunLogical<Fns>), ...);
}

}  // namespace

void RegisterComparison(KernelTable& table) {
  SetComparison(table, kernels::ComparisonFns());
  SetLogical(table, kernels::LogicalFns());
}

}  // namespace chx::server::cuda
