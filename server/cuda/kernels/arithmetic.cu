// Elementwise kernels whose operands and result have one dtype, which may be any: mainly those of
// ops/defs/arithmetic.cc. One kernel per formula of server/kernels/elementwise_fns.h and dtype.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/elementwise.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

template <typename Fn>
absl::Status RunUnary(const KernelArgs& args) {
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same<T, kernels::Bool>::value) {
      return DtypeError("[", args.op.name, "] is not defined for bool");
    } else {
      return RunElementwise<OfStored<Fn, T>, true, T, T>(args, args.out(0), args.in(0));
    }
  });
}

// Formulas with loops and divisions take longer than single-element accesses to memory.
template <typename Fn>
inline constexpr bool kHeavy =
    std::is_same<Fn, kernels::Power>::value || std::is_same<Fn, kernels::FloorDivide>::value ||
    std::is_same<Fn, kernels::Remainder>::value || std::is_same<Fn, kernels::Fmod>::value;

template <typename Fn>
absl::Status RunBinary(const KernelArgs& args) {
  return kernels::VisitDtype(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, T>, !kHeavy<Fn>, T, T, T>(args, args.out(0), args.in(0),
                                                                 args.in(1));
  });
}

}  // namespace

void RegisterArithmetic(KernelTable& table) {
  kernels::ForEachFn(kernels::UnarySameFns(),
                     [&](auto fn) { table.Set(decltype(fn)::kOp, RunUnary<decltype(fn)>); });
  kernels::ForEachFn(kernels::BinaryArithmeticFns(),
                     [&](auto fn) { table.Set(decltype(fn)::kOp, RunBinary<decltype(fn)>); });
}

}  // namespace chx::server::cuda
