// Kernels of ops/defs/normalization_rows.cc. What they decline, the operators' compositions
// compute.
#include <algorithm>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/norm_layout.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::LastAxes;
using kernels::MomentsDtype;
using kernels::RowsEps;
using kernels::RowSizes;

// Input i, dense and as `dtype`; of no data if it is absent. UnimplementedError if it is wider.
absl::StatusOr<KernelTensor> Parameter(const KernelArgs& args, size_t i, Dtype dtype) {
  if (i >= args.inputs.size() || !args.inputs[i].present) return KernelTensor();
  if (PromoteTypes(args.inputs[i].dtype, dtype) != dtype) return absl::UnimplementedError("");
  return Contiguous(args, args.inputs[i], dtype);
}

int64_t GrainOf(int64_t n) { return std::max<int64_t>(1, kGrain / 2 / std::max<int64_t>(1, n)); }

// x, weight?, bias?; normalized_shape, eps.
template <bool kCentered>
absl::Status RunRows(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Dtype dtype = MomentsDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor weight, Parameter(args, 1, dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor bias, Parameter(args, 2, dtype));
  const RowSizes sizes = LastAxes(out.shape, args.attrs[0]);
  const double eps = RowsEps(args.attrs[1], out.dtype);
  const RowNormLoops& loops = Loops().layers->row_norm[static_cast<int>(out.dtype)];
  const int64_t bytes = sizes.n * ItemSize(out.dtype);
  PoolOf(args).ParallelFor(sizes.rows, GrainOf(sizes.n), [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t row = begin; row < end && !watch.After(sizes.n); ++row) {
      loops.row(kCentered, x.data + row * bytes, sizes.n, eps, weight.data, bias.data,
                out.data + row * bytes);
    }
  });
  return absl::OkStatus();
}

// The rows are in parts, which are summed by themselves, so that the gradients of weight and bias
// do not depend on how many threads there are.
constexpr int64_t kMaxParts = 16;
constexpr int64_t kRowsAtATime = 64;  // that are summed in the computed type, before double

// out[i] = the sum over all parts of totals[part][which][i].
template <typename C>
void StoreTotals(const double* totals, int64_t parts, int64_t n, int which, C* out) {
  StopWatch watch;
  for (int64_t i = 0; i < n && !watch.After(parts); ++i) {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) sum += totals[(2 * part + which) * n + i];
    out[i] = static_cast<C>(sum);
  }
}

// x, gy, weight?; normalized_shape, eps, affine.
template <bool kCentered, typename C>
absl::Status RunGradRows(const KernelArgs& args, const KernelTensor& x, const KernelTensor& gy,
                         const KernelTensor& weight) {
  const RowSizes sizes = LastAxes(x.shape, args.attrs[0]);
  const int64_t n = sizes.n;
  const double eps = RowsEps(args.attrs[1], x.dtype);
  const bool affine = args.attrs[2].AsBool();
  const RowNormLoops& loops = Loops().layers->row_norm[static_cast<int>(x.dtype)];
  const int64_t bytes = n * ItemSize(x.dtype);
  char* const gx = args.out(0).data;
  if (!affine) {
    PoolOf(args).ParallelFor(sizes.rows, GrainOf(n), [&](int64_t begin, int64_t end) {
      StopWatch watch;
      for (int64_t row = begin; row < end && !watch.After(n); ++row) {
        loops.grad(kCentered, x.data + row * bytes, gy.data + row * bytes, n, eps, weight.data,
                   gx + row * bytes, nullptr, nullptr);
      }
    });
    return absl::OkStatus();
  }
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(kMaxParts, sizes.rows / GrainOf(n)));
  const Shape shape({parts, 2, n});
  CHX_ASSIGN_OR_RETURN(const KernelTensor all_sums, NewTensor(args, MomentsDtype(x.dtype), shape));
  CHX_ASSIGN_OR_RETURN(const KernelTensor all_totals, NewTensor(args, Dtype::kFloat64, shape));
  double* const totals = reinterpret_cast<double*>(all_totals.data);
  PoolOf(args).ParallelFor(parts, 1, [&](int64_t first, int64_t last) {
    StopWatch watch;
    for (int64_t part = first; part < last; ++part) {
      C* const sums = reinterpret_cast<C*>(all_sums.data) + part * 2 * n;
      double* const total = totals + part * 2 * n;
      FillZero(sums, 2 * n * static_cast<int64_t>(sizeof(C)));
      FillZero(total, 2 * n * static_cast<int64_t>(sizeof(double)));
      const int64_t begin = sizes.rows * part / parts;
      const int64_t end = sizes.rows * (part + 1) / parts;
      for (int64_t row = begin; row < end && !watch.After(n); ++row) {
        loops.grad(kCentered, x.data + row * bytes, gy.data + row * bytes, n, eps, weight.data,
                   gx + row * bytes, sums, sums + n);
        if ((row - begin) % kRowsAtATime == kRowsAtATime - 1 || row + 1 == end) {
          loops.collect(sums, 2 * n, total);
        }
      }
    }
  });
  StoreTotals(totals, parts, n, 0, reinterpret_cast<C*>(args.out(1).data));
  StoreTotals(totals, parts, n, 1, reinterpret_cast<C*>(args.out(2).data));
  return absl::OkStatus();
}

template <bool kCentered>
absl::Status RunGrad(const KernelArgs& args) {
  const Dtype dtype = args.in(0).dtype;
  const Dtype compute = MomentsDtype(dtype);
  if (args.in(1).dtype != dtype) return absl::UnimplementedError("");
  if (args.in(0).size() == 0) {
    for (size_t i = 1; i < args.outputs.size(); ++i) {
      const KernelTensor& out = args.out(static_cast<int>(i));
      FillZero(out.data, out.size() * ItemSize(out.dtype));
    }
    return absl::OkStatus();
  }
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(1), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor weight, Parameter(args, 2, compute));
  if (compute == Dtype::kFloat64) return RunGradRows<kCentered, double>(args, x, gy, weight);
  return RunGradRows<kCentered, float>(args, x, gy, weight);
}

struct GroupSizes {
  int64_t samples;
  int64_t groups;
  int64_t channels;  // of a group
  int64_t size;      // of a channel
};
// x: (N, C, ...).
GroupSizes GroupsOf(const Shape& x, int64_t groups) {
  GroupSizes sizes = {x[0], groups, x[1] / groups, 1};
  for (int d = 2; d < x.size(); ++d) sizes.size *= x[d];
  return sizes;
}

// x, weight?, bias?; eps.
absl::Status RunGroups(const KernelArgs& args, int64_t groups, double eps) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  const Dtype dtype = MomentsDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor weight, Parameter(args, 1, dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor bias, Parameter(args, 2, dtype));
  const GroupSizes sizes = GroupsOf(out.shape, groups);
  const GroupNormLoops& loops = Loops().layers->group_norm[static_cast<int>(out.dtype)];
  const int64_t n = sizes.channels * sizes.size;
  const int64_t bytes = n * ItemSize(out.dtype);
  const int64_t parameters = sizes.channels * ItemSize(dtype);
  const auto at = [&](const KernelTensor& parameter, int64_t group) {
    return parameter.data == nullptr ? nullptr : parameter.data + group * parameters;
  };
  PoolOf(args).ParallelFor(sizes.samples * groups, GrainOf(n), [&](int64_t begin, int64_t end) {
    StopWatch watch;
    for (int64_t row = begin; row < end && !watch.After(n); ++row) {
      const int64_t group = row % groups;
      loops.row(x.data + row * bytes, sizes.channels, sizes.size, eps, at(weight, group),
                at(bias, group), out.data + row * bytes);
    }
  });
  return absl::OkStatus();
}

absl::Status RunGroupNorm(const KernelArgs& args) {
  return RunGroups(args, args.attrs[0].AsInt(), args.attrs[1].AsFloat());
}
absl::Status RunInstanceNorm(const KernelArgs& args) {
  return RunGroups(args, args.in(0).shape[1], args.attrs[0].AsFloat());
}

// x, gy, weight?; num_groups, eps, affine.
absl::Status RunGroupNormGrad(const KernelArgs& args) {
  const Dtype dtype = args.in(0).dtype;
  const Dtype compute = MomentsDtype(dtype);
  if (args.in(1).dtype != dtype || args.in(0).size() == 0) return absl::UnimplementedError("");
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(1), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor weight, Parameter(args, 2, compute));
  const GroupSizes sizes = GroupsOf(x.shape, args.attrs[0].AsInt());
  const double eps = args.attrs[1].AsFloat();
  const int64_t channels = x.shape[1];
  // Those of each sample; they are added up in order.
  CHX_ASSIGN_OR_RETURN(const KernelTensor all_totals,
                       NewTensor(args, Dtype::kFloat64, Shape({sizes.samples, 2, channels})));
  double* const totals = reinterpret_cast<double*>(all_totals.data);
  const GroupNormLoops& loops = Loops().layers->group_norm[static_cast<int>(dtype)];
  const int64_t n = sizes.channels * sizes.size;
  const int64_t bytes = n * ItemSize(dtype);
  char* const gx = args.out(0).data;
  PoolOf(args).ParallelFor(
      sizes.samples * sizes.groups, GrainOf(n), [&](int64_t begin, int64_t end) {
        StopWatch watch;
        for (int64_t row = begin; row < end && !watch.After(n); ++row) {
          const int64_t first = row % sizes.groups * sizes.channels;
          double* const total = totals + row / sizes.groups * 2 * channels + first;
          const char* const factors =
              weight.data == nullptr ? nullptr : weight.data + first * ItemSize(compute);
          loops.grad(x.data + row * bytes, gy.data + row * bytes, sizes.channels, sizes.size, eps,
                     factors, gx + row * bytes, total, total + channels);
        }
      });
  if (!args.attrs[2].AsBool()) return absl::OkStatus();
  for (int i = 0; i < 2; ++i) {
    char* const out = args.out(1 + i).data;
    if (compute == Dtype::kFloat64) {
      StoreTotals(totals, sizes.samples, channels, i, reinterpret_cast<double*>(out));
    } else {
      StoreTotals(totals, sizes.samples, channels, i, reinterpret_cast<float*>(out));
    }
  }
  return absl::OkStatus();
}

}  // namespace

void RegisterNormalizationRows(KernelTable& table) {
  table.Set("group_norm", RunGroupNorm);
  table.Set("group_norm_grad", RunGroupNormGrad);
  table.Set("instance_norm", RunInstanceNorm);
  table.Set("layer_norm", RunRows<true>);
  table.Set("layer_norm_grad", RunGrad<true>);
  table.Set("rms_norm", RunRows<false>);
  table.Set("rms_norm_grad", RunGrad<false>);
}

}  // namespace chx::server::native
