#include "server/native/vendor/dnnl_bfloat16.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"
#include "server/engine/stop_requested.h"
#include "server/native/runtime/device.h"
#include "server/native/vendor/dnnl_plan_cache.h"
#include "server/native/vendor/dnnl_primitive.h"
#include "server/native/vendor/task_slots.h"

namespace chx::server::native {
namespace {

constexpr int64_t kProductItem = 2;            // bytes
constexpr int64_t kMinProductWork = 32 << 10;  // multiplications: of less, the calls take longest
constexpr int64_t kProductTaskWork = 1 << 20;  // worth waking a thread for
constexpr int64_t kMostProductTaskWork = 1 << 28;  // some 3 ms: no task can be stopped
constexpr int64_t kMaxProductTasks = 8;            // of one product, unless they have too much work
constexpr int64_t kProductSide = 64;  // rows or columns of a task, and what they are a multiple of
constexpr int64_t kMaxProductElements = 1 << 28;  // its machine code has 32 bits for offsets
constexpr int64_t kMaxProductStride = 1 << 20;

// As oneDNN names a matrix: one of both strides is an element.
struct Layout {
  int64_t row_stride;
  int64_t column_stride;
};

Layout LayoutOf(const Matrix& m) {
  const bool by_rows = (m.columns == 1 || m.column_stride == kProductItem) &&
                       (m.rows == 1 || m.row_stride >= m.columns * kProductItem);
  if (by_rows) return {m.rows == 1 ? m.columns : m.row_stride / kProductItem, 1};
  return {1, m.columns == 1 ? m.rows : m.column_stride / kProductItem};
}

// A part of a product, as it is compiled.
struct Piece {
  int64_t rows;
  int64_t columns;
  int64_t inner;
  Layout a;
  Layout b;
  int64_t c_stride;
  bool biased;
};

struct ProductPlan {
  DnnlPrimitive product;
  DnnlDesc a;
  DnnlDesc b;
  DnnlDesc bias;
  DnnlDesc c;
  DnnlDesc scratchpad;
};

std::shared_ptr<const ProductPlan> MakeProductPlan(const Piece& p) {
  auto plan = std::make_shared<ProductPlan>();
  plan->a = DnnlStrided({p.rows, p.inner}, {p.a.row_stride, p.a.column_stride}, dnnl_bf16);
  plan->b = DnnlStrided({p.inner, p.columns}, {p.b.row_stride, p.b.column_stride}, dnnl_bf16);
  plan->bias = DnnlStrided({1, p.columns}, {p.columns, 1}, dnnl_bf16);
  plan->c = DnnlStrided({p.rows, p.columns}, {p.c_stride, 1}, dnnl_bf16);
  dnnl_matmul_desc_t op;
  if (Dnnl()->dnnl_matmul_desc_init(&op, &plan->a, &plan->b, p.biased ? &plan->bias : nullptr,
                                    &plan->c) != dnnl_success) {
    return nullptr;
  }
  // oneDNN 2.6 has faster code ("brg") for dense matrices only, by some percent; parts of one,
  // whose rows are further apart, take the other ("gemm").
  plan->product = DnnlPrimitive::Create(&op, nullptr, /*by_gemm=*/true);
  if (!plan->product) return nullptr;
  plan->scratchpad = plan->product.desc(dnnl_query_scratchpad_md);
  return plan;
}

std::shared_ptr<const ProductPlan> PlanOf(const Piece& p) {
  static auto* const cache = new DnnlPlanCache<ProductPlan>;
  const DnnlPlanCache<ProductPlan>::Key key = {p.rows,
                                               p.columns,
                                               p.inner,
                                               p.a.row_stride,
                                               p.a.column_stride,
                                               p.b.row_stride,
                                               p.b.column_stride,
                                               p.c_stride,
                                               static_cast<int64_t>(p.biased)};
  return cache->Get(key, [&] { return MakeProductPlan(p); });
}

// One side of the results, in parts of `step` but for the last one.
struct Cut {
  int64_t size;
  int64_t step;

  int64_t parts() const { return (size + step - 1) / step; }
  int64_t SizeOf(int64_t part) const { return std::min(step, size - part * step); }
  void Halve() {
    step = std::max(kProductSide, (step / 2 + kProductSide - 1) / kProductSide * kProductSide);
  }
};

bool IsSmallEnough(const Matrix& m) {
  const Layout layout = LayoutOf(m);
  const int64_t stride = std::max(layout.row_stride, layout.column_stride);
  const int64_t lines = layout.column_stride == 1 ? m.rows : m.columns;
  return stride <= kMaxProductStride && lines <= kMaxProductElements / stride;
}

class Products {
 public:
  Products(const KernelArgs& args, int64_t count, const Matrix& a, const Matrix& b, bool biased)
      : args_(args),
        count_(count),
        a_(a),
        b_(b),
        biased_(biased),
        rows_{a.rows, a.rows},
        columns_{b.columns, b.columns} {}

  // False: they are not for oneDNN.
  absl::StatusOr<bool> Prepare() {
    if (!Fits()) return false;
    for (int i = 0; i < 4; ++i) {
      const Piece piece = {rows_.SizeOf(i / 2 == 0 ? 0 : rows_.parts() - 1),
                           columns_.SizeOf(i % 2 == 0 ? 0 : columns_.parts() - 1),
                           a_.columns,
                           LayoutOf(a_),
                           LayoutOf(b_),
                           b_.columns,
                           biased_};
      plans_[i] = PlanOf(piece);
      if (plans_[i] == nullptr) return false;
      slot_bytes_ = std::max(slot_bytes_, DnnlBytes(plans_[i]->scratchpad));
    }
    slot_bytes_ = std::max<size_t>(slot_bytes_, 64);
    slot_count_ = static_cast<int>(std::min<int64_t>(tasks(), PoolOf(args_).threads()));
    CHX_ASSIGN_OR_RETURN(void* const slots,
                         args_.scratch.Allocate(slot_bytes_ * static_cast<size_t>(slot_count_)));
    slots_ = static_cast<char*>(slots);
    return true;
  }

  // False: oneDNN reports an error.
  bool Run(const int64_t* a_offsets, const int64_t* b_offsets, const char* bias, char* c) const {
    TaskSlots slots(slots_, slot_bytes_, slot_count_);
    std::atomic<bool> ok{true};
    const int64_t per_task = a_.rows * a_.columns * b_.columns / (tasks() / count_);
    const int64_t grain = std::max<int64_t>(1, kProductTaskWork / std::max<int64_t>(1, per_task));
    PoolOf(args_).ParallelFor(tasks(), grain, [&](int64_t begin, int64_t end) {
      char* const slot = slots.Take();
      for (int64_t task = begin; task < end && !StopRequested(); ++task) {
        const int64_t column = task % columns_.parts();
        const int64_t row = task / columns_.parts() % rows_.parts();
        const int64_t i = task / columns_.parts() / rows_.parts();
        const ProductPlan& plan =
            *plans_[(row == rows_.parts() - 1 ? 2 : 0) + (column == columns_.parts() - 1 ? 1 : 0)];
        const int64_t first_row = row * rows_.step;
        const int64_t first_column = column * columns_.step;
        absl::InlinedVector<DnnlArgument, 5> arguments = {
            {DNNL_ARG_SRC, &plan.a, a_.data + a_offsets[i] + first_row * a_.row_stride},
            {DNNL_ARG_WEIGHTS, &plan.b, b_.data + b_offsets[i] + first_column * b_.column_stride},
            {DNNL_ARG_DST, &plan.c,
             c + ((i * a_.rows + first_row) * b_.columns + first_column) * kProductItem},
            {DNNL_ARG_SCRATCHPAD, &plan.scratchpad, slot}};
        if (biased_)
          arguments.push_back({DNNL_ARG_BIAS, &plan.bias, bias + first_column * kProductItem});
        if (!plan.product.Run(arguments)) ok = false;
      }
      slots.Return(slot);
    });
    return ok;
  }

 private:
  int64_t tasks() const { return count_ * rows_.parts() * columns_.parts(); }

  // Cuts the longer side for the threads, and both until no task has too much work.
  bool Fits() {
    const int64_t inner = a_.columns;
    if (!IsBlasReady(a_, kProductItem) || !IsBlasReady(b_, kProductItem) || !IsSmallEnough(a_) ||
        !IsSmallEnough(b_) || b_.columns > kMaxProductStride ||
        a_.rows > kMaxProductElements / b_.columns) {
      return false;
    }
    const auto work = [&] {
      return static_cast<double>(rows_.step) * static_cast<double>(columns_.step) *
             static_cast<double>(inner);
    };
    const auto longer = [&] { return rows_.step >= columns_.step ? &rows_ : &columns_; };
    if (work() < kMinProductWork) return false;
    while (rows_.parts() * columns_.parts() < kMaxProductTasks && longer()->step > kProductSide &&
           work() >= 2 * kProductTaskWork) {
      longer()->Halve();
    }
    while (work() > kMostProductTaskWork && longer()->step > kProductSide) longer()->Halve();
    return work() <= kMostProductTaskWork;
  }

  const KernelArgs& args_;
  const int64_t count_;
  const Matrix& a_;
  const Matrix& b_;
  const bool biased_;
  Cut rows_;
  Cut columns_;
  std::shared_ptr<const ProductPlan> plans_[4];  // of inner parts and the last row and column
  size_t slot_bytes_ = 0;
  int slot_count_ = 0;
  char* slots_ = nullptr;
};

}  // namespace

absl::StatusOr<bool> DnnlBfloat16Products(const KernelArgs& args, int64_t count, const Matrix& a,
                                          const int64_t* a_offsets, const Matrix& b,
                                          const int64_t* b_offsets, const char* bias, char* c) {
  const bool is_empty = count == 0 || a.rows == 0 || b.columns == 0 || a.columns == 0;
  if (!HasBfloat16Instructions() || is_empty || Dnnl() == nullptr) return false;
  Products products(args, count, a, b, bias != nullptr);
  CHX_ASSIGN_OR_RETURN(const bool prepared, products.Prepare());
  if (!prepared) return false;
  if (!products.Run(a_offsets, b_offsets, bias, c)) {
    return MemoryError("[", args.op.name, "] out of memory: oneDNN has failed");
  }
  return true;
}

}  // namespace chx::server::native
