// Kernels of ops/defs/manipulation.cc: whatever is not a view.
#include <algorithm>

#include "server/kernels/indexer.h"
#include "server/kernels/output_parts.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

// Dense inputs side by side in rows of the output: row by row, so that it is written in order.
// False if they are not that.
bool ConcatenateRows(const KernelArgs& args) {
  constexpr int64_t kShort = 64;  // bytes that a strided loop copies as fast
  const KernelTensor& out = args.out(0);
  if (!args.attrs[0].has_value() || out.size() == 0) return false;
  const int64_t given = args.attrs[0].AsInt();
  const int64_t axis = given < 0 ? given + out.ndim() : given;
  int64_t rows = 1;
  for (int64_t d = 0; d < axis; ++d) rows *= out.shape[d];
  const int64_t row_bytes = out.size() / rows * ItemSize(out.dtype);
  if (rows == 1 || row_bytes < kShort * static_cast<int64_t>(args.inputs.size())) return false;
  for (const KernelTensor& in : args.inputs) {
    const bool dense = kernels::IsContiguous(in.shape, in.strides, ItemSize(in.dtype));
    if (in.size() > 0 && (in.dtype != out.dtype || !dense)) return false;
  }
  const int64_t grain = std::max<int64_t>(1, 4 * kGrain / row_bytes);
  PoolOf(args).ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    char* to = out.data + begin * row_bytes;
    for (int64_t row = begin; row < end; ++row) {
      for (const KernelTensor& in : args.inputs) {
        const int64_t bytes = in.size() / rows * ItemSize(in.dtype);
        if (bytes > 0) CopyBytes(to, in.data + row * bytes, bytes);
        to += bytes;
      }
    }
  });
  return true;
}

absl::Status RunConcatenate(const KernelArgs& args) {
  if (ConcatenateRows(args)) return absl::OkStatus();
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
