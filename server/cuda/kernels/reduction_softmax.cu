// Kernels of ops/defs/reduction_softmax.cc, for axes that are the last ones. Others run as
// compositions.
#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/softmax_rows.h"
#include "server/cuda/loops/copy.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/norm_layout.h"

namespace chx::server::cuda {
namespace {

template <typename T, typename Loop>
struct SoftmaxBody : SoftmaxRows<T, Loop> {
  using typename SoftmaxRows<T, Loop>::C;
  using typename SoftmaxRows<T, Loop>::Acc;
  using typename SoftmaxRows<T, Loop>::Held;

  T* out;
  bool log;

  CHX_HD void Finish(int64_t row, int rank, Held* held, const Acc& acc) const {
    const Loop& loop = this->loop;
    T* const to = out + row * loop.n();
    const C max = acc.max;
    // Where the largest element is infinite or NaN the sum does not count, as in logsumexp.
    const C sum = IsFinite(max) ? acc.sum : C(1);
    const C shift = log ? kernels::Log(sum) : C(0);
    const C factor = C(1) / sum;
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      if (!Loop::kWhole) this->Load(row, begin, rank, held);
      const Held& items = *held;
      if (log) {
        loop.Store(to, begin, rank, [&](int i) { return (items.at[i] - max) - shift; });
      } else {
        loop.Store(to, begin, rank,
                   [&](int i) { return kernels::Exp(items.at[i] - max) * factor; });
      }
    }
  }
};

template <typename T, typename Loop>
struct SoftmaxGradBody {
  using C = kernels::Compute<T>;
  using Acc = C;
  struct Held {
    typename Loop::template Items<C> y;
    typename Loop::template Items<C> gy;
  };

  Loop loop;
  const T* y;
  const T* gy;
  T* gx;
  bool log;

  CHX_HD static Acc Combine(Acc a, Acc b) { return a + b; }
  CHX_HD void Load(int64_t row, int begin, int rank, Held* held) const {
    loop.Load(y + row * loop.n(), begin, rank, &held->y);
    loop.Load(gy + row * loop.n(), begin, rank, &held->gy);
  }
  CHX_HD Acc Gather(int64_t row, int rank, Held* held) const {
    Acc acc = C(0);
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      Load(row, begin, rank, held);
      // Of a step by itself: fewer roundings in a long row.
      C sum = C(0);
      loop.ForPacks(begin, rank, [&](int i, int) {
        CHX_UNROLL
        for (int j = i; j < i + Loop::kPack; ++j) {
          sum += log ? held->gy.at[j] : held->y.at[j] * held->gy.at[j];
        }
      });
      acc += sum;
    }
    return acc;
  }
  CHX_HD void Finish(int64_t row, int rank, Held* held, Acc sum) const {
    T* const to = gx + row * loop.n();
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      if (!Loop::kWhole) Load(row, begin, rank, held);
      const Held& items = *held;
      if (log) {
        loop.Store(to, begin, rank,
                   [&](int i) { return items.gy.at[i] - kernels::Exp(items.y.at[i]) * sum; });
      } else {
        loop.Store(to, begin, rank, [&](int i) { return items.y.at[i] * (items.gy.at[i] - sum); });
      }
    }
  }
};

// UnimplementedError if the axes (axis 1 by default) are not the last ones, but for axes of one
// element, or rows are too long.
absl::StatusOr<kernels::RowSizes> SizesOf(const KernelArgs& args, const Shape& shape) {
  const AttrValue& axis = args.attrs[0];
  CHX_ASSIGN_OR_RETURN(
      const uint32_t axes,
      rules::NormalizeAxes(args.op.name, axis.has_value() ? axis : AttrValue::FromInts({1}),
                           shape.size()));
  kernels::RowSizes sizes;
  for (int d = 0; d < shape.size(); ++d) {
    const bool inside = ((axes >> d) & 1) != 0;
    if (!inside && sizes.n > 1 && shape[d] > 1) return absl::UnimplementedError("not of rows");
    (inside ? sizes.n : sizes.rows) *= shape[d];
  }
  if (!FitsGroup(sizes.rows, sizes.n)) return absl::UnimplementedError("long rows");
  return sizes;
}

template <bool kLog>
absl::Status RunSoftmax(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const kernels::RowSizes sizes, SizesOf(args, out.shape));
  CHX_ASSIGN_OR_RETURN(const KernelTensor x, Contiguous(args, args.in(0), out.dtype));
  return kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return VisitRowLoop<T, 32>(sizes.n, {x.data, out.data}, [&](auto loop) {
      return ForEachRow(
          args, sizes.rows,
          SoftmaxBody<T, decltype(loop)>{
              {loop, reinterpret_cast<const T*>(x.data)}, reinterpret_cast<T*>(out.data), kLog});
    });
  });
}

// y, gy.
template <bool kLog>
absl::Status RunSoftmaxGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const kernels::RowSizes sizes, SizesOf(args, out.shape));
  CHX_ASSIGN_OR_RETURN(const KernelTensor y, Contiguous(args, args.in(0), out.dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(1), out.dtype));
  return kernels::VisitFloat(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return VisitRowLoop<T, 16>(sizes.n, {y.data, gy.data, out.data}, [&](auto loop) {
      return ForEachRow(args, sizes.rows,
                        SoftmaxGradBody<T, decltype(loop)>{loop, reinterpret_cast<const T*>(y.data),
                                                           reinterpret_cast<const T*>(gy.data),
                                                           reinterpret_cast<T*>(out.data), kLog});
    });
  });
}

}  // namespace

void RegisterReductionSoftmax(KernelTable& table) {
  table.Set("softmax", RunSoftmax<false>);
  table.Set("log_softmax", RunSoftmax<true>);
  table.Set("softmax_grad", RunSoftmaxGrad<false>);
  table.Set("log_softmax_grad", RunSoftmaxGrad<true>);
}

}  // namespace chx::server::cuda
