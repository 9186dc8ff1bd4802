#include "server/native/kernels/index_bounds.h"

#include <atomic>

#include "ops/error.h"
#include "server/engine/stop_token.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"

namespace chx::server::native {
namespace {

// Whether all of n positions are in [0, size): the usual case, which needs no copy.
bool AllInRange(ThreadPool& pool, const int64_t* positions, int64_t n, int64_t size) {
  std::atomic<bool> all{true};
  pool.ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    if (!InBounds(positions + begin, end - begin, size)) {
      all.store(false, std::memory_order_relaxed);
    }
  });
  return all.load();
}

}  // namespace

absl::StatusOr<const int64_t*> ResolveIndices(const KernelArgs& args, const KernelTensor& indices,
                                              kernels::IndexMode mode, int64_t size) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor given, Contiguous(args, indices, Dtype::kInt64));
  const int64_t* const in = reinterpret_cast<const int64_t*>(given.data);
  const bool all = AllInRange(PoolOf(args), in, indices.size(), size);
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));  // else not all have been looked at
  if (all) return in;
  CHX_ASSIGN_OR_RETURN(const KernelTensor result, NewTensor(args, Dtype::kInt64, indices.shape));
  int64_t* const out = reinterpret_cast<int64_t*>(result.data);
  StopWatch watch;
  for (int64_t i = 0; i < indices.size(); ++i) {
    if (watch.After(1)) break;
    int64_t index = in[i];
    if (!kernels::ResolveIndex(mode, size, &index)) {
      return kernels::BadIndexError(args.op.name, in[i], size);
    }
    out[i] = index;
  }
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
  return out;
}

}  // namespace chx::server::native
