// Kernels of ops/defs/loss.cc. One group of threads computes each sample, in the form of rows.h
// where scores are dense.
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/softmax_rows.h"
#include "server/cuda/loops/late_check.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/reduce_ops.h"

namespace chx::server::cuda {
namespace {

constexpr int64_t kIgnored = -1;

// A label that is no class counts as kIgnored, and is reported.
struct Labels {
  const char* data;
  int64_t stride;
  int64_t classes;
  LateCheck check;

  CHX_HD int64_t At(int64_t row) const {
    const int64_t label = *reinterpret_cast<const int64_t*>(data + row * stride);
    if (label >= kIgnored && label < classes) return label;
    check.Report(label);
    return kIgnored;
  }
};

// Scores (rows, classes) in any layout.
template <typename T>
struct Scores {
  const char* data;
  int64_t row_stride;
  int64_t column_stride;

  CHX_HD kernels::Compute<T> At(int64_t row, int64_t column) const {
    return kernels::Load(
        *reinterpret_cast<const T*>(data + row * row_stride + column * column_stride));
  }
};

template <typename T>
struct SampleBody {
  using C = kernels::Compute<T>;
  using Reducer = kernels::LogSumExpReducer<T>;
  using Acc = typename Reducer::Acc;

  ThreadGroups groups;
  Scores<T> x;
  Labels labels;
  int64_t rows;
  int64_t classes;
  T* out;

  CHX_HD static Acc Combine(const Acc& a, const Acc& b) { return Reducer::Combine(a, b); }
  CHX_HD int64_t RowOf(int64_t block, int thread) const {
    return block * groups.count() + groups.GroupOf(thread);
  }
  CHX_HD Acc Gather(int64_t block, int thread) const {
    Acc acc = Reducer::Identity();
    const int64_t row = RowOf(block, thread);
    if (row >= rows || labels.At(row) == kIgnored) return acc;
    for (int64_t c = groups.RankOf(thread); c < classes; c += groups.size()) {
      acc = Reducer::Combine(acc, Reducer::FromElement(x.At(row, c), c));
    }
    return acc;
  }
};

template <typename T>
struct LossBody : SampleBody<T> {
  using typename SampleBody<T>::Acc;
  using typename SampleBody<T>::C;

  CHX_HD void Finish(int64_t block, int thread, const Acc& acc) const {
    const int64_t row = this->RowOf(block, thread);
    if (row >= this->rows || this->groups.RankOf(thread) != 0) return;
    const int64_t label = this->labels.At(row);
    // In this order no digits are lost by cancellation.
    const C loss =
        label == kIgnored ? C(0) : (acc.max - this->x.At(row, label)) + kernels::Log(acc.sum);
    this->out[row] = kernels::Store<T>(loss);
  }
};

template <typename T>
struct GradBody : SampleBody<T> {
  using typename SampleBody<T>::Acc;
  using typename SampleBody<T>::C;

  const char* gy;
  int64_t gy_stride;

  CHX_HD void Finish(int64_t block, int thread, const Acc& acc) const {
    const int64_t row = this->RowOf(block, thread);
    if (row >= this->rows) return;
    const int64_t label = this->labels.At(row);
    const C scale = kernels::Load(*reinterpret_cast<const T*>(gy + row * gy_stride));
    const C factor = C(1) / acc.sum;
    for (int64_t c = this->groups.RankOf(thread); c < this->classes; c += this->groups.size()) {
      C slope = C(0);
      if (label != kIgnored) {
        const C share = kernels::Exp(this->x.At(row, c) - acc.max) * factor;
        slope = (c == label ? share - C(1) : share) * scale;
      }
      this->out[row * this->classes + c] = kernels::Store<T>(slope);
    }
  }
};

template <typename T, typename Loop>
struct RowLossBody : SoftmaxRows<T, Loop> {
  using typename SoftmaxRows<T, Loop>::Acc;
  using typename SoftmaxRows<T, Loop>::C;
  using typename SoftmaxRows<T, Loop>::Held;

  Labels labels;
  T* out;

  CHX_HD void Finish(int64_t row, int rank, Held*, const Acc& acc) const {
    if (rank != 0) return;
    const int64_t n = this->loop.n();
    const int64_t label = labels.At(row);
    C loss = C(0);
    if (label >= 0 && label < n) {
      const C sum = IsFinite(acc.max) ? acc.sum : C(1);
      loss = (acc.max - kernels::Load(this->x[row * n + label])) + kernels::Log(sum);
    }
    out[row] = kernels::Store<T>(loss);
  }
};

template <typename T, typename Loop>
struct RowGradBody : SoftmaxRows<T, Loop> {
  using typename SoftmaxRows<T, Loop>::Acc;
  using typename SoftmaxRows<T, Loop>::C;
  using typename SoftmaxRows<T, Loop>::Held;

  Labels labels;
  const char* gy;
  int64_t gy_stride;
  T* out;

  CHX_HD void Finish(int64_t row, int rank, Held* held, const Acc& acc) const {
    const Loop& loop = this->loop;
    T* const to = out + row * loop.n();
    const int64_t label = labels.At(row);
    const C scale = kernels::Load(*reinterpret_cast<const T*>(gy + row * gy_stride));
    const C factor = IsFinite(acc.max) ? C(1) / acc.sum : C(1);
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      if (!Loop::kWhole) this->Load(row, begin, rank, held);
      loop.ForPacks(begin, rank, [&](int i, int at) {
        CHX_UNROLL
        for (int j = 0; j < Loop::kPack; ++j) {
          const C share = kernels::Exp(held->at[i + j] - acc.max) * factor;
          const C slope = (at + j == label ? share - C(1) : share) * scale;
          held->at[i + j] = label == kIgnored ? C(0) : slope;
        }
      });
      loop.Store(to, begin, rank, [&](int i) { return held->at[i]; });
    }
  }
};

template <typename Body>
Body NewBody(const KernelArgs& args) {
  const KernelTensor& x = args.in(0);
  Body body{};
  body.rows = x.shape[0];
  body.classes = x.shape[1];
  body.labels = {args.in(1).data, args.in(1).strides[0], body.classes,
                 LateCheck(args, Finding::Kind::kLabel, body.classes)};
  body.x = {x.data, x.strides[0], x.strides[1]};
  const int64_t threads = PowerOfTwoAtLeast(std::max<int64_t>(1, (body.classes + 1) / 2));
  body.groups = ThreadGroups(static_cast<int>(std::min<int64_t>(threads, kThreads)), false);
  return body;
}

template <typename Body>
absl::Status Launch(const KernelArgs& args, const Body& body) {
  const int64_t groups = body.groups.count();
  return ForEachGroup(args, (body.rows + groups - 1) / groups, body);
}

// Whether the scores of a sample are a row of rows.h.
template <typename T>
bool HasRows(const SampleBody<T>& body) {
  constexpr int64_t kItem = sizeof(T);
  return body.classes > 0 && body.x.column_stride == kItem &&
         body.x.row_stride == body.classes * kItem && FitsGroup(body.rows, body.classes);
}

absl::Status RunSoftmaxCrossEntropy(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  return kernels::VisitFloat(out.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    auto body = NewBody<LossBody<T>>(args);
    body.out = reinterpret_cast<T*>(out.data);
    if (!HasRows(body)) return Launch(args, body);
    return VisitRowLoop<T, 16>(body.classes, {body.x.data}, [&](auto loop) {
      const T* const x = reinterpret_cast<const T*>(body.x.data);
      return ForEachRow(args, body.rows,
                        RowLossBody<T, decltype(loop)>{{loop, x}, body.labels, body.out});
    });
  });
}

absl::Status RunSoftmaxCrossEntropyGrad(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  return kernels::VisitFloat(out.dtype, [&](auto tag) -> absl::Status {
    using T = typename decltype(tag)::Type;
    auto body = NewBody<GradBody<T>>(args);
    body.gy = args.in(2).data;
    body.gy_stride = args.in(2).strides[0];
    body.out = reinterpret_cast<T*>(out.data);
    if (!HasRows(body)) return Launch(args, body);
    return VisitRowLoop<T, 16>(body.classes, {body.x.data, body.out}, [&](auto loop) {
      const T* const x = reinterpret_cast<const T*>(body.x.data);
      return ForEachRow(args, body.rows,
                        RowGradBody<T, decltype(loop)>{
                            {loop, x}, body.labels, body.gy, body.gy_stride, body.out});
    });
  });
}

}  // namespace

void RegisterLoss(KernelTable& table) {
  table.Set("softmax_cross_entropy", RunSoftmaxCrossEntropy);
  table.Set("softmax_cross_entropy_grad", RunSoftmaxCrossEntropyGrad);
}

}  // namespace chx::server::cuda
