// Elementwise kernels whose result is bool, and where: those of ops/defs/comparison.cc. One kernel
// per formula of server/kernels/elementwise_fns.h and dtype.
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/elementwise.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

using kernels::Bool;

// By the dtype of the operands. A scalar operand has the dtype of the other.
template <typename Fn>
absl::Status RunComparison(const KernelArgs& args) {
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, Bool>, true, Bool, T, T>(args, args.out(0), args.in(0),
                                                                args.in(1));
  });
}

template <typename Fn>
absl::Status RunTest(const KernelArgs& args) {
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, Bool>, true, Bool, T>(args, args.out(0), args.in(0));
  });
}

template <typename Fn>
absl::Status RunLogical(const KernelArgs& args) {
  return RunElementwise<OfStored<Fn, Bool>, true, Bool, Bool, Bool>(args, args.out(0), args.in(0),
                                                                    args.in(1));
}

template <typename Fn>
absl::Status RunUnaryLogical(const KernelArgs& args) {
  return RunElementwise<OfStored<Fn, Bool>, true, Bool, Bool>(args, args.out(0), args.in(0));
}

template <typename Out>
struct WhereCall {
  CHX_HD static Out Call(const Bool& condition, const Out& x, const Out& y) {
    return kernels::Where()(static_cast<bool>(condition), x, y);
  }
};

// A scalar operand as bits of the result's dtype.
template <typename Bits>
ScalarOrArray<Bits> BitsOf(const KernelTensor& tensor) {
  ScalarOrArray<Bits> operand;
  operand.data = tensor.data;
  operand.value = Bits();
  if (tensor.is_scalar) {
    kernels::VisitDtype(tensor.dtype, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      if constexpr (sizeof(T) == sizeof(Bits)) {
        operand.value = kernels::BitCast<Bits>(kernels::ScalarAs<T>(tensor.scalar));
      }
    });
  }
  return operand;
}

absl::Status RunWhere(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using Bits = typename decltype(tag)::Type;
    return RunOperands<WhereCall<Bits>, true, Bits>(
        args, {&out, &args.in(0), &args.in(1), &args.in(2)},
        Operands<Bool, Bits, Bits>(ScalarOrArrayOf<Bool>(args.in(0)), BitsOf<Bits>(args.in(1)),
                                   BitsOf<Bits>(args.in(2))));
  });
}

}  // namespace

void RegisterComparison(KernelTable& table) {
  kernels::ForEachFn(kernels::ComparisonFns(),
                     [&](auto fn) { table.Set(decltype(fn)::kOp, RunComparison<decltype(fn)>); });
  kernels::ForEachFn(kernels::UnaryTestFns(),
                     [&](auto fn) { table.Set(decltype(fn)::kOp, RunTest<decltype(fn)>); });
  kernels::ForEachFn(kernels::LogicalFns(),
                     [&](auto fn) { table.Set(decltype(fn)::kOp, RunLogical<decltype(fn)>); });
  kernels::ForEachFn(kernels::UnaryLogicalFns(),
                     [&](auto fn) { table.Set(decltype(fn)::kOp, RunUnaryLogical<decltype(fn)>); });
  table.Set(kernels::Where::kOp, RunWhere);
}

}  // namespace chx::server::cuda
