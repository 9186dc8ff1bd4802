// Kernels of ops/defs/creation.cc.
#include "ops/arange.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/math.h"

namespace chx::server::cuda {
namespace {

// Memory comes from the session's own pool, so it can only contain the session's own data.
absl::Status RunEmpty(const KernelArgs&) { return absl::OkStatus(); }

absl::Status RunFull(const KernelArgs& args) {
  return Fill(args, args.attrs[1].AsScalar(), args.out(0));
}

absl::Status RunFill(const KernelArgs& args) {
  return Fill(args, args.attrs[0].AsScalar(), args.out(0));
}

template <typename T>
struct FloatRange {
  T* out;
  double start;
  double step;

  // Rounded after each step, as in every backend.
  CHX_HD void operator()(int64_t i) const {
#ifdef __CUDA_ARCH__
    out[i] = kernels::Cast<T>(__dadd_rn(start, __dmul_rn(static_cast<double>(i), step)));
#else
    out[i] = kernels::Cast<T>(start + static_cast<double>(i) * step);
#endif
  }
};

template <typename T>
struct IntRange {
  T* out;
  int64_t start;
  int64_t step;

  CHX_HD void operator()(int64_t i) const {
    out[i] = kernels::Cast<T>(kernels::WrapAdd(start, kernels::WrapMultiply(i, step)));
  }
};

absl::Status RunArange(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const Arange arange, ParseArange(args.attrs));
  const KernelTensor& out = args.out(0);
  const int64_t size = std::min(arange.size, out.size());
  return kernels::VisitDtype(out.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    T* const data = reinterpret_cast<T*>(out.data);
    const bool floating = arange.start.is_float() || arange.step.is_float();
    if (floating || IsFloat(out.dtype)) {
      return ForEach(args, size,
                     FloatRange<T>{data, arange.start.AsDouble(), arange.step.AsDouble()});
    }
    if constexpr (!std::is_floating_point<kernels::Compute<T>>::value) {
      return ForEach(args, size, IntRange<T>{data, arange.start.AsInt(), arange.step.AsInt()});
    }
    return absl::OkStatus();
  });
}

template <typename Bits>
struct Eye {
  Bits* out;
  Bits one;
  int64_t columns;
  int64_t k;

  CHX_HD void operator()(int64_t i) const {
    const int64_t row = i / columns;
    out[i] = i - row * columns - row == k ? one : Bits();
  }
};

template <typename Bits>
struct OneHot {
  Bits* out;
  Bits one;
  const int64_t* labels;
  kernels::AxisSlices slices;

  CHX_HD void operator()(int64_t i) const {
    const int64_t at = i / slices.after % slices.size;
    out[i] = labels[slices.SliceOf(i)] == at ? one : Bits();
  }
};

// Calls visit(bits of a one) with elements of the dtype's size.
template <typename Visit>
absl::Status VisitOne(Dtype dtype, Visit visit) {
  return kernels::VisitDtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Bits = std::conditional_t<
        sizeof(T) == 1, uint8_t,
        std::conditional_t<sizeof(T) == 2, uint16_t,
                           std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
    return visit(kernels::BitCast<Bits>(kernels::Cast<T>(1)));
  });
}

absl::Status RunEye(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  return VisitOne(out.dtype, [&](auto one) {
    return ForEach(args, out.size(),
                   Eye<decltype(one)>{reinterpret_cast<decltype(one)*>(out.data), one, out.shape[1],
                                      args.attrs[2].AsInt()});
  });
}

absl::Status RunOneHot(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const kernels::AxisSlices slices,
                       kernels::SlicesOf(args.op.name, out.shape, args.attrs[2]));
  return VisitOne(out.dtype, [&](auto one) {
    return ForEach(args, out.size(),
                   OneHot<decltype(one)>{reinterpret_cast<decltype(one)*>(out.data), one,
                                         reinterpret_cast<const int64_t*>(x.data), slices});
  });
}

// copy, astype.
absl::Status RunCast(const KernelArgs& args) { return Copy(args, args.in(0), args.out(0)); }

absl::Status RunCopyTo(const KernelArgs& args) {
  const KernelTensor& source = args.in(1);
  return source.is_scalar ? Fill(args, source.scalar, args.out(0))
                          : Copy(args, source, args.out(0));
}

}  // namespace

void RegisterCreation(KernelTable& table) {
  table.Set("empty", RunEmpty);
  table.Set("full", RunFull);
  table.Set("arange", RunArange);
  table.Set("eye", RunEye);
  table.Set("one_hot", RunOneHot);
  table.Set("copy", RunCast);
  table.Set("astype", RunCast);
  table.Set("fill", RunFill);
  table.Set("copyto", RunCopyTo);
}

}  // namespace chx::server::cuda
