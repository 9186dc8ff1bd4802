// Kernels of ops/defs/decompositions.cc.
#include "server/lapack/decompositions.h"

#include <algorithm>

#include "ops/error.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"

namespace chx::server::native {
namespace {

// float16 is computed in float32.
Dtype DtypeOfWork(Dtype dtype) { return dtype == Dtype::kFloat16 ? Dtype::kFloat32 : dtype; }

absl::Status RunDecomposition(const KernelArgs& args) {
  absl::InlinedVector<KernelTensor, 2> inputs;
  for (const KernelTensor& input : args.inputs) {
    CHX_ASSIGN_OR_RETURN(KernelTensor dense, Contiguous(args, input, DtypeOfWork(input.dtype)));
    inputs.push_back(std::move(dense));
  }
  absl::InlinedVector<KernelTensor, 3> outputs(args.outputs.begin(), args.outputs.end());
  for (KernelTensor& output : outputs) {
    if (output.dtype != Dtype::kFloat16) continue;
    CHX_ASSIGN_OR_RETURN(output, NewTensor(args, Dtype::kFloat32, output.shape));
  }
  ThreadPool& pool = PoolOf(args);
  const auto for_each = [&pool](int64_t count, int64_t work, absl::FunctionRef<void(int64_t)> fn) {
    pool.ParallelFor(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work)),
                     [&fn](int64_t begin, int64_t end) {
                       for (int64_t i = begin; i < end; ++i) fn(i);
                     });
  };
  CHX_RETURN_IF_ERROR(
      lapack::Run({args.op, args.stream, args.scratch, inputs, outputs, args.attrs}, for_each));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Dtype to = args.out(i).dtype;
    if (outputs[i].dtype == to) continue;
    const int from = static_cast<int>(outputs[i].dtype);
    RunUnary(pool, outputs[i], args.out(i), Loops().cast[from][static_cast<int>(to)]);
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterDecompositions(KernelTable& table) {
  for (const absl::string_view op : lapack::Operators()) table.Set(op, RunDecomposition);
}

}  // namespace chx::server::native
