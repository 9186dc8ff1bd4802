// Kernels of ops/defs/elementwise.cc: one per formula of server/kernels/elementwise_fns.h and
// dtype. Those of two operands are in arithmetic.cu and comparison.cu.
#include "server/cuda/elementwise.h"

#include "ops/error.h"
#include "server/cuda/groups.h"
#include "server/kernels/elementwise_fns.h"

namespace chx::server::cuda {
namespace {

using kernels::Bool;

template <typename Fn>
absl::Status RunFloat(const KernelArgs& args) {
  return kernels::VisitFloat(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, T>, true, T, T>(args, args.out(0), args.in(0));
  });
}

template <typename Fn>
absl::Status RunSame(const KernelArgs& args) {
  return kernels::VisitDtype(args.in(0).dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    if constexpr (std::is_same<T, Bool>::value) {
      return DtypeError("[", args.op.name, "] is not defined for bool");
    } else {
      return RunElementwise<OfStored<Fn, T>, true, T, T>(args, args.out(0), args.in(0));
    }
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
  if (out.size() == 0) return absl::OkStatus();
  const KernelTensor* const in[3] = {&args.in(0), &args.in(1), &args.in(2)};
  return kernels::VisitItemSize(ItemSize(out.dtype), [&](auto tag) {
    using Bits = typename decltype(tag)::Type;
    return ForEach(args, out.size(),
                   StridedBody<WhereCall<Bits>, Bits, Bool, Bits, Bits>{
                       NestOf(out, in), out.data, ScalarOrArrayOf<Bool>(*in[0]),
                       BitsOf<Bits>(*in[1]), BitsOf<Bits>(*in[2])});
  });
}

template <typename... Fns>
void SetFloat(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunFloat<Fns>), ...);
}
template <typename... Fns>
void SetSame(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunSame<Fns>), ...);
}
template <typename... Fns>
void SetTest(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunTest<Fns>), ...);
}
template <typename... Fns>
void SetLogical(KernelTable& table, kernels::FnList<Fns...>) {
  (table.Set(Fns::kOp, RunLogical<Fns>), ...);
}

}  // namespace

void RegisterElementwise(KernelTable& table) {
  SetFloat(table, kernels::UnaryFloatFns());
  SetSame(table, kernels::UnarySameFns());
  SetTest(table, kernels::UnaryTestFns());
  SetLogical(table, kernels::UnaryLogicalFns());
  table.Set(kernels::Where::kOp, RunWhere);
  RegisterArithmetic(table);
  RegisterComparison(table);
}

}  // namespace chx::server::cuda
