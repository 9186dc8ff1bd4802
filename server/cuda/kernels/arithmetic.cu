// The part of elementwise.cu with two operands of a dtype and a result of the same.
#include "server/cuda/elementwise.h"
#include "server/cuda/groups.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

// Formulas with loops and divisions: their cost hides that of single-element accesses.
template <typename Fn>
inline constexpr bool kHeavy =
    std::is_same<Fn, kernels::Power>::value || std::is_same<Fn, kernels::FloorDivide>::value ||
    std::is_same<Fn, kernels::Remainder>::value || std::is_same<Fn, kernels::Fmod>::value;

template <typename Fn>
absl::Status RunArithmetic(const KernelArgs& args) {
  return kernels::VisitDtype(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, T>, !kHeavy<Fn>, T, T, T>(args, args.out(0), args.in(0),
                                                                 args.in(1));
  });
}

template <typename Fn>
absl::Status RunFloat(const KernelArgs& args) {
  return kernels::VisitFloat(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, T>, true, T, T, T>(args, args.out(0), args.in(0),
                                                          args.in(1));
  });
}

template <typename... Fns>
void SetArithmetic(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunArithmetic<Fns>), ...);
}
template <typename... Fns>
void SetFloat(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunFloat<Fns>), ...);
}

}  // namespace

void RegisterArithmetic(KernelTable& table) {
  SetArithmetic(table, kernels::BinaryArithmeticFns());
  SetFloat(table, kernels::BinaryFloatFns());
}

}  // namespace chx::server::cuda
