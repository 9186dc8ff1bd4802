// Kernels of ops/defs/manipulation.cc for operators that are no views.
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/kernels/output_parts.h"

namespace chx::server::cuda {
namespace {

absl::Status RunConcatenate(const KernelArgs& args) {
  return kernels::ForConcatenatedParts(
      args,
      [&args](const KernelTensor& in, const KernelTensor& part) { return Copy(args, in, part); });
}

}  // namespace

void RegisterManipulation(KernelTable& table) { table.Set("concatenate", RunConcatenate); }

}  // namespace chx::server::cuda
