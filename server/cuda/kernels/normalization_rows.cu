// Kernels of ops/defs/normalization_rows.cc: each row by one group of threads. What they decline,
// the operators' compositions compute.
//
// Moments are those of parts of a row, which are put together (Chan, Golub and LeVeque, "Updating
// formulae and a pairwise algorithm for computing sample variances", 1979): x is read once, and no
// digits are lost by cancellation.
#include "server/cuda/kernels/normalization_rows.h"

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/norm_layout.h"

namespace chx::server::cuda {
namespace {

// Where rows are not centered, means count as 0.
template <typename C>
struct Moments {
  C count;
  C mean;
  C squares;  // of x - mean, summed
};

template <typename T, typename Loop>
struct NormBody {
  using C = kernels::Compute<T>;
  using Acc = Moments<C>;
  using Held = typename Loop::template Items<C>;

  Loop loop;
  const T* x;
  T* y;
  Affine<C> affine;
  C eps;
  bool centered;

  CHX_HD static Acc Combine(const Acc& a, const Acc& b) {
    const C count = a.count + b.count;
    const C share = count > C(0) ? b.count / count : C(0);
    const C away = b.mean - a.mean;
    return {count, a.mean + away * share, a.squares + b.squares + away * (a.count * share) * away};
  }
  // Of a thread's elements of a step.
  CHX_HD Acc OfStep(int begin, int rank, const Held& held) const {
    Acc acc{C(0), C(0), C(0)};
    loop.ForPacks(begin, rank, [&](int i, int) {
      acc.count += C(Loop::kPack);
      CHX_UNROLL
      for (int j = i; j < i + Loop::kPack; ++j) acc.mean += held.at[j];
    });
    const C mean = centered && acc.count > C(0) ? acc.mean / acc.count : C(0);
    loop.ForPacks(begin, rank, [&](int i, int) {
      CHX_UNROLL
      for (int j = i; j < i + Loop::kPack; ++j) {
        acc.squares += (held.at[j] - mean) * (held.at[j] - mean);
      }
    });
    acc.mean = mean;
    return acc;
  }
  CHX_HD void Load(int64_t row, int begin, int rank, Held* held) const {
    loop.Load(x + row * loop.n(), begin, rank, held);
  }
  CHX_HD Acc Gather(int64_t row, int rank, Held* held) const {
    return GatherSteps(*this, row, rank, held);
  }
  CHX_HD void Finish(int64_t row, int rank, Held* held, const Acc& acc) const {
    T* const to = y + row * loop.n();
    const C inverse = InverseDeviation(acc.squares, loop.n(), eps);
    const int64_t first = affine.First(row);
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      if (!Loop::kWhole) Load(row, begin, rank, held);
      loop.ForPacks(begin, rank, [&](int i, int at) {
        C weight[Loop::kPack];
        C bias[Loop::kPack];
        affine.Weights(first, at, weight);
        affine.Biases(first, at, bias);
        CHX_UNROLL
        for (int j = 0; j < Loop::kPack; ++j) {
          held->at[i + j] = (held->at[i + j] - acc.mean) * inverse * weight[j] + bias[j];
        }
      });
      loop.Store(to, begin, rank, [&](int i) { return held->at[i]; });
    }
  }
};

// Also of s, the gradient of the normalized x.
template <typename C>
struct CoMoments {
  C count;
  C mean;
  C squares;
  C s_mean;
  C products;  // of x - mean and s - s_mean, summed
};

template <typename T, typename Loop>
struct NormGradBody {
  using C = kernels::Compute<T>;
  using Acc = CoMoments<C>;
  struct Held {
    typename Loop::template Items<C> x;
    typename Loop::template Items<C> s;
  };

  Loop loop;
  const T* x;
  const T* gy;
  T* gx;
  RowMoments<C>* moments;  // null: nobody needs them
  Affine<C> affine;
  C eps;
  bool centered;

  CHX_HD static Acc Combine(const Acc& a, const Acc& b) {
    const C count = a.count + b.count;
    const C share = count > C(0) ? b.count / count : C(0);
    const C away = b.mean - a.mean;
    const C s_away = b.s_mean - a.s_mean;
    const C weight = a.count * share;
    return {count, a.mean + away * share, a.squares + b.squares + away * weight * away,
            a.s_mean + s_away * share, a.products + b.products + away * weight * s_away};
  }
  CHX_HD void Load(int64_t row, int begin, int rank, Held* held) const {
    loop.Load(x + row * loop.n(), begin, rank, &held->x);
    loop.Load(gy + row * loop.n(), begin, rank, &held->s);
    if (affine.weight == nullptr) return;
    const int64_t first = affine.First(row);
    loop.ForPacks(begin, rank, [&](int i, int at) {
      C weight[Loop::kPack];
      affine.Weights(first, at, weight);
      CHX_UNROLL
      for (int j = 0; j < Loop::kPack; ++j) held->s.at[i + j] *= weight[j];
    });
  }
  CHX_HD Acc OfStep(int begin, int rank, const Held& held) const {
    Acc acc{C(0), C(0), C(0), C(0), C(0)};
    loop.ForPacks(begin, rank, [&](int i, int) {
      acc.count += C(Loop::kPack);
      CHX_UNROLL
      for (int j = i; j < i + Loop::kPack; ++j) {
        acc.mean += held.x.at[j];
        acc.s_mean += held.s.at[j];
      }
    });
    const bool means = centered && acc.count > C(0);
    acc.mean = means ? acc.mean / acc.count : C(0);
    acc.s_mean = means ? acc.s_mean / acc.count : C(0);
    loop.ForPacks(begin, rank, [&](int i, int) {
      CHX_UNROLL
      for (int j = i; j < i + Loop::kPack; ++j) {
        const C away = held.x.at[j] - acc.mean;
        acc.squares += away * away;
        acc.products += away * (held.s.at[j] - acc.s_mean);
      }
    });
    return acc;
  }
  CHX_HD Acc Gather(int64_t row, int rank, Held* held) const {
    return GatherSteps(*this, row, rank, held);
  }
  // Ba, Kiros and Hinton, "Layer normalization", 2016.
  CHX_HD void Finish(int64_t row, int rank, Held* held, const Acc& acc) const {
    T* const to = gx + row * loop.n();
    const C inverse = InverseDeviation(acc.squares, loop.n(), eps);
    const C slope = acc.products / static_cast<C>(loop.n()) * inverse;
    if (rank == 0 && moments != nullptr) moments[row] = {acc.mean, inverse};
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      if (!Loop::kWhole) Load(row, begin, rank, held);
      const Held& items = *held;
      loop.Store(to, begin, rank, [&](int i) {
        const C normalized = (items.x.at[i] - acc.mean) * inverse;
        return (items.s.at[i] - acc.s_mean - normalized * slope) * inverse;
      });
    }
  }
};

NormRows LastAxes(const Shape& shape, const AttrValue& normalized) {
  const kernels::RowSizes sizes = kernels::LastAxes(shape, normalized);
  NormRows rows;
  rows.rows = sizes.rows;
  rows.n = sizes.n;
  return rows;
}

// x: (N, C, ...).
NormRows Groups(const Shape& x, int64_t groups) {
  NormRows rows;
  rows.groups = groups;
  rows.channels = x[1] / groups;
  rows.size = 1;
  for (int d = 2; d < x.size(); ++d) rows.size *= x[d];
  rows.rows = x[0] * groups;
  rows.n = rows.channels * rows.size;
  return rows;
}

// Input i, dense and as `dtype`; of no data if it is absent. UnimplementedError if it is wider.
absl::StatusOr<KernelTensor> Parameter(const KernelArgs& args, size_t i, Dtype dtype) {
  if (i >= args.inputs.size() || !args.inputs[i].present) return KernelTensor();
  if (PromoteTypes(args.inputs[i].dtype, dtype) != dtype) return absl::UnimplementedError("");
  return Contiguous(args, args.inputs[i], dtype);
}

// x, weight?, bias?. The output is not empty.
absl::Status Normalize(const KernelArgs& args, const NormRows& rows, double eps, bool centered) {
  const KernelTensor& out = args.out(0);
  if (!FitsGroup(rows.rows, rows.n)) return absl::UnimplementedError("long rows");
  const Dtype dtype = kernels::MomentsDtype(out.dtype);
  CHX_ASSIGN_OR_RETURN(const KernelTensor weight, Parameter(args, 1, dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor bias, Parameter(args, 2, dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  return kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = kernels::Compute<T>;
    return VisitRowLoop<T, 32>(rows.n, {x.data, out.data, weight.data, bias.data}, [&](auto loop) {
      return ForEachRow(args, rows.rows,
                        NormBody<T, decltype(loop)>{loop, reinterpret_cast<const T*>(x.data),
                                                    reinterpret_cast<T*>(out.data),
                                                    Affine<C>(rows, weight.data, bias.data),
                                                    static_cast<C>(eps), centered});
    });
  });
}

// x, gy, weight?; ..., affine.
absl::Status Gradient(const KernelArgs& args, const NormRows& rows, double eps, bool centered) {
  const Dtype dtype = args.in(0).dtype;
  const Dtype compute = kernels::MomentsDtype(dtype);
  const bool affine = args.attrs[2].AsBool();
  if (args.in(1).dtype != dtype) return absl::UnimplementedError("");
  if (args.in(0).size() == 0) {
    for (size_t i = 1; i < args.outputs.size(); ++i) {
      const KernelTensor& out = args.out(static_cast<int>(i));
      CHX_RETURN_IF_ERROR(args.stream.Zero(out.data, out.size() * ItemSize(out.dtype)));
    }
    return absl::OkStatus();
  }
  if (!FitsGroup(rows.rows, rows.n)) return absl::UnimplementedError("long rows");
  CHX_ASSIGN_OR_RETURN(const KernelTensor weight, Parameter(args, 2, compute));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(1), dtype));
  void* moments = nullptr;
  if (affine) {
    CHX_ASSIGN_OR_RETURN(moments, args.scratch.Allocate(rows.rows * 2 * ItemSize(compute)));
  }
  char* const gx = args.out(0).data;
  CHX_RETURN_IF_ERROR(kernels::VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = kernels::Compute<T>;
    return VisitRowLoop<T, 16>(rows.n, {x.data, gy.data, gx, weight.data}, [&](auto loop) {
      return ForEachRow(
          args, rows.rows,
          NormGradBody<T, decltype(loop)>{
              loop, reinterpret_cast<const T*>(x.data), reinterpret_cast<const T*>(gy.data),
              reinterpret_cast<T*>(gx), static_cast<RowMoments<C>*>(moments),
              Affine<C>(rows, weight.data, nullptr), static_cast<C>(eps), centered});
    });
  }));
  return affine ? SumAffine(args, rows, x, gy, moments) : absl::OkStatus();
}

// x, weight?, bias?; normalized_shape, eps.
template <bool kCentered>
absl::Status RunRows(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  return Normalize(args, LastAxes(out.shape, args.attrs[0]),
                   kernels::RowsEps(args.attrs[1], out.dtype), kCentered);
}

// x, gy, weight?; normalized_shape, eps, affine.
template <bool kCentered>
absl::Status RunRowsGrad(const KernelArgs& args) {
  const KernelTensor& x = args.in(0);
  return Gradient(args, LastAxes(x.shape, args.attrs[0]), kernels::RowsEps(args.attrs[1], x.dtype),
                  kCentered);
}

absl::Status RunGroupNorm(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  return Normalize(args, Groups(out.shape, args.attrs[0].AsInt()), args.attrs[1].AsFloat(), true);
}
absl::Status RunInstanceNorm(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  return Normalize(args, Groups(out.shape, out.shape[1]), args.attrs[0].AsFloat(), true);
}

// x, gy, weight?; num_groups, eps, affine.
absl::Status RunGroupNormGrad(const KernelArgs& args) {
  return Gradient(args, Groups(args.in(0).shape, args.attrs[0].AsInt()), args.attrs[1].AsFloat(),
                  true);
}

}  // namespace

void RegisterNormalizationRows(KernelTable& table) {
  table.Set("group_norm", RunGroupNorm);
  table.Set("group_norm_grad", RunGroupNormGrad);
  table.Set("instance_norm", RunInstanceNorm);
  table.Set("layer_norm", RunRows<true>);
  table.Set("layer_norm_grad", RunRowsGrad<true>);
  table.Set("rms_norm", RunRows<false>);
  table.Set("rms_norm_grad", RunRowsGrad<false>);
}

}  // namespace chx::server::cuda
