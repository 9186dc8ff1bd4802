// Elementwise kernels for floats only: mainly those of ops/defs/math.cc. One kernel per formula of
// server/kernels/elementwise_fns.h and smooth_fns.h, and dtype.
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/elementwise.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/smooth_fns.h"

namespace chx::server::cuda {
namespace {

template <typename Fn>
absl::Status RunUnary(const KernelArgs& args) {
  return kernels::VisitFloat(args.in(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, T>, true, T, T>(args, args.out(0), args.in(0));
  });
}

template <typename Fn>
absl::Status RunBinary(const KernelArgs& args) {
  return kernels::VisitFloat(args.out(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return RunElementwise<OfStored<Fn, T>, true, T, T, T>(args, args.out(0), args.in(0),
                                                          args.in(1));
  });
}

}  // namespace

void RegisterMath(KernelTable& table) {
  const auto unary = [&](auto fn) { table.Set(decltype(fn)::kOp, RunUnary<decltype(fn)>); };
  const auto binary = [&](auto fn) { table.Set(decltype(fn)::kOp, RunBinary<decltype(fn)>); };
  kernels::ForEachFn(kernels::UnaryFloatFns(), unary);
  kernels::ForEachFn(kernels::SmoothFns(), unary);
  kernels::ForEachFn(kernels::BinaryFloatFns(), binary);
  kernels::ForEachFn(kernels::SmoothGradFns(), binary);
}

}  // namespace chx::server::cuda
