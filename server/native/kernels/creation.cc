// Kernels of ops/defs/creation.cc.
#include <algorithm>
#include <cstring>

#include "ops/arange.h"
#include "ops/error.h"
#include "server/engine/stop_token.h"
#include "server/kernels/axis.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/math.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

// Memory comes from the session's own pool, so old contents belong to the session itself.
absl::Status RunEmpty(const KernelArgs&) { return absl::OkStatus(); }

void Fill(const KernelArgs& args, const Scalar& value) {
  const KernelTensor& out = args.out(0);
  alignas(8) char element[8];
  StoreScalar(value, out.dtype, element);
  KernelTensor in;
  in.data = element;
  in.dtype = out.dtype;
  RunUnary(PoolOf(args), in, out, CastLoop(out.dtype, out.dtype));
}

absl::Status RunFull(const KernelArgs& args) {
  Fill(args, args.attrs[1].AsScalar());
  return absl::OkStatus();
}

absl::Status RunFill(const KernelArgs& args) {
  Fill(args, args.attrs[0].AsScalar());
  return absl::OkStatus();
}

absl::Status RunArange(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const Arange arange, ParseArange(args.attrs));
  const KernelTensor& out = args.out(0);
  const int64_t size = std::min(arange.size, out.size());
  kernels::VisitDtype(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    T* const data = reinterpret_cast<T*>(out.data);
    const bool floating = arange.start.is_float() || arange.step.is_float();
    if (floating || kernels::kIsFloat<kernels::Compute<T>>) {
      const double start = arange.start.AsDouble();
      const double step = arange.step.AsDouble();
      InPieces(size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          data[i] = kernels::Cast<T>(start + static_cast<double>(i) * step);
        }
      });
    } else {
      int64_t value = arange.start.AsInt();
      InPieces(size, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          data[i] = kernels::Cast<T>(value);
          value = kernels::WrapAdd(value, arange.step.AsInt());
        }
      });
    }
  });
  return absl::OkStatus();
}

absl::Status RunEye(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const int64_t rows = out.shape[0];
  const int64_t columns = out.shape[1];
  const int64_t k = args.attrs[2].AsInt();
  Fill(args, Scalar(0));
  CHX_RETURN_IF_ERROR(CheckNotStopped(args.op.name));
  if (k <= -rows || k >= columns) return absl::OkStatus();
  const int64_t item_size = ItemSize(out.dtype);
  alignas(8) char one[8];
  StoreScalar(Scalar(1), out.dtype, one);
  for (int64_t row = std::max<int64_t>(0, -k); row < std::min(rows, columns - k); ++row) {
    std::memcpy(out.data + (row * columns + row + k) * item_size, one, item_size);
  }
  return absl::OkStatus();
}

absl::Status RunOneHot(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), Dtype::kInt64));
  CHX_ASSIGN_OR_RETURN(const kernels::AxisSlices slices,
                       kernels::SlicesOf(args.op.name, out.shape, args.attrs[2]));
  const auto* const labels = reinterpret_cast<const int64_t*>(x.data);
  const int64_t item_size = ItemSize(out.dtype);
  alignas(8) char one[8];
  StoreScalar(Scalar(1), out.dtype, one);
  // Short rows are filled just before they get their one.
  const bool by_rows = slices.after == 1 && slices.size < kGrain;
  if (!by_rows) Fill(args, Scalar(0));
  const int64_t work = by_rows ? slices.size : 1;
  PoolOf(args).ParallelFor(slices.count(), std::max<int64_t>(1, kGrain / work),
                           [&](int64_t begin, int64_t end) {
                             StopWatch watch;
                             for (int64_t i = begin; i < end && !watch.After(work); ++i) {
                               char* const row = out.data + slices.First(i) * item_size;
                               if (by_rows) FillZero(row, slices.size * item_size);
                               if (labels[i] < 0 || labels[i] >= slices.size) continue;
                               std::memcpy(row + labels[i] * slices.after * item_size, one,
                                           static_cast<size_t>(item_size));
                             }
                           });
  return absl::OkStatus();
}

// copy, astype.
absl::Status RunCast(const KernelArgs& args) {
  const KernelTensor& in = args.in(0);
  const KernelTensor& out = args.out(0);
  RunUnary(PoolOf(args), in, out, CastLoop(in.dtype, out.dtype));
  return absl::OkStatus();
}

absl::Status RunCopyTo(const KernelArgs& args) {
  const KernelTensor& source = args.in(1);
  if (source.is_scalar) {
    Fill(args, source.scalar);
  } else {
    const KernelTensor& out = args.out(0);
    RunUnary(PoolOf(args), source, out, CastLoop(source.dtype, out.dtype));
  }
  return absl::OkStatus();
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

}  // namespace chx::server::native
