// Kernels of ops/defs/activation_smooth.cc: one loop per formula of server/kernels/smooth_fns.h.
#include "server/kernels/smooth_fns.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"

namespace chx::server::native {
namespace {

template <auto kRows, int kIndex>
absl::Status RunSmooth(const KernelArgs& args) {
  return RunLoop(args, (Loops().layers->*kRows)[kIndex][static_cast<int>(args.in(0).dtype)]);
}

template <auto kRows, typename... Fns>
void SetSmooth(KernelTable& table, kernels::FnList<Fns...>) {
  using List = kernels::FnList<Fns...>;
  (table.SetBlockwise(Fns::kOp, RunSmooth<kRows, kernels::kFnIndex<Fns, List>>), ...);
}

}  // namespace

void RegisterActivation(KernelTable& table) {
  SetSmooth<&LayerLoops::smooth>(table, kernels::SmoothFns());
  SetSmooth<&LayerLoops::smooth_grad>(table, kernels::SmoothGradFns());
}

}  // namespace chx::server::native
