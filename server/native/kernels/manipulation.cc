// Kernels of ops/defs/manipulation.cc: whatever is not a view.
#include "server/kernels/output_parts.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"

namespace chx::server::native {
namespace {

absl::Status RunConcatenate(const KernelArgs& args) {
  const int dtype = static_cast<int>(args.out(0).dtype);
  const Loop copy = Loops().cast[dtype][dtype];
  return kernels::ForConcatenatedParts(args, [&](const KernelTensor& in, const KernelTensor& part) {
    RunUnary(PoolOf(args), in, part, copy);
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterManipulation(KernelTable& table) { table.Set("concatenate", RunConcatenate); }

}  // namespace chx::server::native
