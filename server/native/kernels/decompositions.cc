// Kernels of ops/defs/decompositions.cc.
#include "server/lapack/decompositions.h"

#include <algorithm>

#include "ops/error.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/kernels/wide_args.h"

namespace chx::server::native {
namespace {

absl::Status RunDecomposition(const KernelArgs& given) {
  return RunWide(given, [](const KernelArgs& args) -> absl::Status {
    absl::InlinedVector<KernelTensor, 2> inputs;
    for (const KernelTensor& input : args.inputs) {
      CHX_ASSIGN_OR_RETURN(KernelTensor dense, Contiguous(args, input, input.dtype));
      inputs.push_back(std::move(dense));
    }
    ThreadPool& pool = PoolOf(args);
    const auto for_each = [&pool](int64_t count, int64_t work,
                                  absl::FunctionRef<void(int64_t)> fn) {
      pool.ParallelFor(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
                       [&fn](int64_t begin, int64_t end) {
                         for (int64_t i = begin; i < end; ++i) fn(i);
                       });
    };
    return lapack::Run({args.op, args.stream, args.scratch, inputs, args.outputs, args.attrs},
                       for_each);
  });
}

}  // namespace

void RegisterDecompositions(KernelTable& table) {
  for (const absl::string_view op : lapack::Operators()) table.Set(op, RunDecomposition);
}

}  // namespace chx::server::native
