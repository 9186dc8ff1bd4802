// Kernels of ops/defs/pooling.cc. cuDNN does not return the positions of maxima, which gradients
// need, and its averages count padding otherwise.
#include "ops/error.h"
#include "server/cuda/kernels/pooling_windows.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/window_args.h"

namespace chx::server::cuda {
namespace {

// Runs a body of pooling_windows.h, whose pointers fill(body, x, y, index) sets.
template <template <typename, typename> class Body, typename Fill>
absl::Status Run(const KernelArgs& args, const kernels::Windows& windows, Fill&& fill) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  absl::InlinedVector<KernelTensor, 2> inputs;
  for (const KernelTensor& input : args.inputs) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor dense, Contiguous(args, input));
    inputs.push_back(dense);
  }
  return kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const auto run = [&](auto body) {
      fill(&body, reinterpret_cast<const T*>(inputs[0].data), reinterpret_cast<T*>(out.data),
           inputs.size() > 1 ? reinterpret_cast<const int64_t*>(inputs[1].data) : nullptr);
      return ForEach(args, out.size(), body, windows.kernel_size);
    };
    if (NarrowWindows::Fits(windows, out.shape[0] * out.shape[1])) {
      return run(Body<T, NarrowWindows>{NarrowWindows(windows)});
    }
    return run(Body<T, WideWindows>{{windows}});
  });
}

// x; y[, index].
absl::Status RunMaxPool(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.in(0).shape, args.out(0).shape, 0);
  auto* const index =
      args.outputs.size() > 1 ? reinterpret_cast<int64_t*>(args.out(1).data) : nullptr;
  return Run<MaxBody>(args, windows, [index](auto* body, const auto* x, auto* y, const int64_t*) {
    body->x = x;
    body->y = y;
    body->index = index;
  });
}

absl::Status RunPoolGather(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.in(0).shape, args.out(0).shape, 0);
  return Run<GatherBody>(args, windows,
                         [](auto* body, const auto* x, auto* y, const int64_t* index) {
                           body->x = x;
                           body->index = index;
                           body->y = y;
                         });
}

absl::Status RunPoolScatter(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.out(0).shape, args.in(0).shape, 1);
  return Run<ScatterBody>(args, windows,
                          [](auto* body, const auto* gy, auto* x, const int64_t* index) {
                            body->gy = gy;
                            body->index = index;
                            body->x = x;
                          });
}

absl::Status RunAveragePool(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.in(0).shape, args.out(0).shape, 0);
  const double divisor = kernels::PoolDivisor(args, windows, 0);
  return Run<AverageBody>(args, windows, [&](auto* body, const auto* x, auto* y, const int64_t*) {
    body->divisor = divisor;
    body->x = x;
    body->y = y;
  });
}

absl::Status RunAveragePoolGrad(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.out(0).shape, args.in(0).shape, 1);
  const double divisor = kernels::PoolDivisor(args, windows, 1);
  return Run<AverageGradBody>(args, windows,
                              [&](auto* body, const auto* gy, auto* x, const int64_t*) {
                                body->divisor = divisor;
                                body->gy = gy;
                                body->x = x;
                              });
}

}  // namespace

void RegisterPooling(KernelTable& table) {
  table.Set("max_pool", RunMaxPool);
  table.Set("max_pool_index", RunMaxPool);
  table.Set("pool_gather", RunPoolGather);
  table.Set("pool_scatter", RunPoolScatter);
  table.Set("average_pool", RunAveragePool);
  table.Set("average_pool_grad", RunAveragePoolGrad);
}

}  // namespace chx::server::cuda
