// Kernels of ops/defs/pooling.cc. cuDNN computes sums of windows if it is installed. Maxima are our
// own, because cuDNN does not return their positions, which gradients need.
#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/vendor/dnn.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/window_args.h"

namespace chx::server::cuda {
namespace {

// Runs a body of windows.h. fill(body, x, y, index) sets its pointers.
template <template <typename> class Body, typename Fill>
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
    Body<T> body{};
    body.windows = windows;
    fill(&body, reinterpret_cast<const T*>(inputs[0].data), reinterpret_cast<T*>(out.data),
         inputs.size() > 1 ? reinterpret_cast<const int64_t*>(inputs[1].data) : nullptr);
    return ForEach(args, out.size(), body, windows.kernel_size);
  });
}

// x; y[, index].
absl::Status RunMaxPool(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.in(0).shape, args.out(0).shape, 0);
  auto* const index =
      args.outputs.size() > 1 ? reinterpret_cast<int64_t*>(args.out(1).data) : nullptr;
  return Run<kernels::WindowMax>(args, windows,
                                 [index](auto* body, const auto* x, auto* y, const int64_t*) {
                                   body->x = x;
                                   body->y = y;
                                   body->index = index;
                                 });
}

absl::Status RunPoolGather(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.in(0).shape, args.out(0).shape, 0);
  return Run<kernels::WindowGather>(args, windows,
                                    [](auto* body, const auto* x, auto* y, const int64_t* index) {
                                      body->x = x;
                                      body->index = index;
                                      body->y = y;
                                    });
}

absl::Status RunPoolScatter(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.out(0).shape, args.in(0).shape, 1);
  return Run<kernels::WindowScatter>(args, windows,
                                     [](auto* body, const auto* gy, auto* x, const int64_t* index) {
                                       body->gy = gy;
                                       body->index = index;
                                       body->x = x;
                                     });
}

// By cuDNN; false if it declines.
absl::StatusOr<bool> RunByDnn(const KernelArgs& args, const kernels::Windows& windows,
                              bool spread) {
  const KernelTensor& out = args.out(0);
  Dnn* const dnn = StreamOf(args).dnn();
  if (dnn == nullptr || out.size() == 0) return false;
  absl::optional<PoolCall> call = PlanPool(out.dtype, spread, windows, out.shape[0], out.shape[1]);
  if (!call.has_value()) return false;
  CHX_ASSIGN_OR_RETURN(const KernelTensor in, Contiguous(args, args.in(0)));
  call->in = in.data;
  call->out = out.data;
  return dnn->Pool(args, *call);
}

absl::Status RunPoolSum(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.in(0).shape, args.out(0).shape, 0);
  CHX_ASSIGN_OR_RETURN(const bool done, RunByDnn(args, windows, false));
  if (done) return absl::OkStatus();
  return Run<kernels::WindowSum>(args, windows,
                                 [](auto* body, const auto* x, auto* y, const int64_t*) {
                                   body->x = x;
                                   body->y = y;
                                 });
}

absl::Status RunPoolSpread(const KernelArgs& args) {
  const kernels::Windows windows =
      kernels::PoolWindows(args, args.out(0).shape, args.in(0).shape, 1);
  CHX_ASSIGN_OR_RETURN(const bool done, RunByDnn(args, windows, true));
  if (done) return absl::OkStatus();
  return Run<kernels::WindowSpread>(args, windows,
                                    [](auto* body, const auto* gy, auto* x, const int64_t*) {
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
  table.Set("pool_sum", RunPoolSum);
  table.Set("pool_spread", RunPoolSpread);
}

}  // namespace chx::server::cuda
