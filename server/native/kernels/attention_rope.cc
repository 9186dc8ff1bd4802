// Kernels of ops/defs/attention_rope.cc.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/indexer.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/kernels/wide_args.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

// Input i, dense and as float64; UnimplementedError if it is absent.
absl::StatusOr<KernelTensor> Given(const KernelArgs& args, size_t i) {
  if (i >= args.inputs.size() || !args.inputs[i].present) return absl::UnimplementedError("");
  return Contiguous(args, args.inputs[i], Dtype::kFloat64);
}
bool IsGiven(const KernelArgs& args, size_t i) {
  return i < args.inputs.size() && args.inputs[i].present;
}

// One row of cosines and one of sines for each position.
template <typename T>
absl::Status FillTables(const KernelArgs& args, bool inverse, const KernelTensor& cos,
                        const KernelTensor& sin) {
  const int64_t rows = cos.shape[0];
  const int64_t pairs = cos.shape[1];
  KernelTensor positions;
  KernelTensor frequencies;
  if (IsGiven(args, 1)) {
    CHX_ASSIGN_OR_RETURN(positions, Given(args, 1));
  }
  if (IsGiven(args, 2)) {
    CHX_ASSIGN_OR_RETURN(frequencies, Given(args, 2));
  }
  const auto* const at = reinterpret_cast<const double*>(positions.data);
  const auto* const given = reinterpret_cast<const double*>(frequencies.data);
  const double step = -std::log(args.attrs[0].AsFloat()) / static_cast<double>(pairs);
  CHX_ASSIGN_OR_RETURN(const KernelTensor used, NewTensor(args, Dtype::kFloat64, Shape({pairs})));
  auto* const frequency = reinterpret_cast<double*>(used.data);
  StopWatch watch;
  for (int64_t i = 0; i < pairs && !watch.After(4); ++i) {
    frequency[i] = given != nullptr ? given[i] : std::exp(static_cast<double>(i) * step);
  }
  T* const cosines = reinterpret_cast<T*>(cos.data);
  T* const sines = reinterpret_cast<T*>(sin.data);
  // A sine takes about as long as 16 cheap steps.
  const int64_t grain = std::max<int64_t>(1, kGrain / 32 / pairs);
  PoolOf(args).ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    StopWatch row_watch;
    for (int64_t row = begin; row < end; ++row) {
      const double position = at != nullptr ? at[row] : static_cast<double>(row);
      for (int64_t i = 0; i < pairs && !row_watch.After(8); ++i) {
        const double angle = position * frequency[i];
        cosines[row * pairs + i] = static_cast<T>(std::cos(angle));
        sines[row * pairs + i] = static_cast<T>(inverse ? -std::sin(angle) : std::sin(angle));
      }
    }
  });
  return absl::OkStatus();
}

// Which row of the tables belongs to row i of x: positions broadcast to x without its last axis.
kernels::LoopNest<1> TableRows(const KernelArgs& args, const Shape& x) {
  kernels::LoopNest<1> nest;
  const int n = x.size() - 1;
  if (!IsGiven(args, 1)) {
    for (int d = 0; d < n; ++d) nest.Append(x[d], {d == n - 1 ? 1 : 0});
    return nest;
  }
  const Shape& positions = args.in(1).shape;
  const Strides strides = ContiguousStrides(positions, 1);
  const int missing = n - positions.size();
  for (int d = 0; d < n; ++d) {
    const int own = d - missing;
    nest.Append(x[d], {own < 0 || positions[own] == 1 ? 0 : strides[own]});
  }
  return nest;
}

template <bool kInverse, typename T>
absl::Status Rotate(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int64_t features = out.shape.back();
  const int64_t pairs = features / 2;
  const bool interleaved = args.attrs[1].AsBool();
  const int64_t tables = IsGiven(args, 1) ? args.in(1).size() : out.shape[out.ndim() - 2];
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor cos, NewTensor(args, out.dtype, Shape({tables, pairs})));
  CHX_ASSIGN_OR_RETURN(const KernelTensor sin, NewTensor(args, out.dtype, Shape({tables, pairs})));
  CHX_RETURN_IF_ERROR(FillTables<T>(args, kInverse, cos, sin));
  const kernels::LoopNest<1> rows = TableRows(args, out.shape);
  const AttentionLoops& loops = Loops().layers->attention[static_cast<int>(out.dtype)];
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  const int64_t grain = std::max<int64_t>(1, kGrain / 2 / features);
  PoolOf(args).ParallelFor(out.size() / features, grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t row = begin; row < end && !watch.After(features); ++row) {
      const int64_t table = rows.Offset(0, row) * pairs * kItem;
      loops.rotate(interleaved, x.data + row * features * kItem, pairs, cos.data + table,
                   sin.data + table, out.data + row * features * kItem);
    }
  });
  return absl::OkStatus();
}

// x, positions?, frequencies?; base, interleaved.
template <bool kInverse>
absl::Status RunRope(const KernelArgs& given) {
  if (given.out(0).size() == 0) return absl::OkStatus();
  return RunWide(given, [](const KernelArgs& args) {
    return args.out(0).dtype == Dtype::kFloat64 ? Rotate<kInverse, double>(args)
                                                : Rotate<kInverse, float>(args);
  });
}

}  // namespace

void RegisterAttentionRope(KernelTable& table) {
  table.Set("rope", RunRope<false>);
  table.Set("rope_grad", RunRope<true>);
}

}  // namespace chx::server::native
