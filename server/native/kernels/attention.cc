// Kernels of ops/defs/attention.cc. Blocks of rows and columns of the scores are computed, used and
// forgotten: memory grows with the length of the sequences, not with its square. After Rabe and
// Staats, "Self-attention does not need O(n^2) memory", 2021, and Dao et al., "FlashAttention",
// 2022.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/philox.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/kernels/wide_args.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"
#include "server/native/vendor/gemm.h"

namespace chx::server::native {
namespace {

constexpr int64_t kRows = 64;         // of a block of scores
constexpr int64_t kKeysAtOnce = 512;  // likewise: 128 KiB of float32
constexpr double kInf = std::numeric_limits<double>::infinity();

// A tensor of matrices, (batch..., heads, rows, columns), whose rows are dense.
struct Matrices {
  KernelTensor tensor;

  int64_t rows() const { return tensor.shape[tensor.ndim() - 2]; }
  int64_t columns() const { return tensor.shape.back(); }
  int64_t row_stride() const { return tensor.strides[tensor.ndim() - 2]; }
  // Rows [begin, end) of the matrix at `offset`.
  Matrix Part(int64_t offset, int64_t begin, int64_t end) const {
    return {tensor.data + offset + begin * row_stride(), end - begin, columns(), row_stride(),
            tensor.strides.back()};
  }
};

absl::StatusOr<Matrices> DenseRows(const KernelArgs& args, const KernelTensor& in) {
  const int64_t item = ItemSize(in.dtype);
  const int64_t stride = in.strides[in.ndim() - 2];
  const bool dense = in.strides.back() == item && stride >= in.shape.back() * item &&
                     stride % item == 0 && stride / item <= INT32_MAX;
  if (dense) return Matrices{in};
  CHX_ASSIGN_OR_RETURN(KernelTensor copy, Contiguous(args, in, in.dtype));
  return Matrices{std::move(copy)};
}

// Everything about a call but its data.
struct AttentionPlan {
  int64_t batch = 1;   // matrices of query
  int64_t groups = 1;  // heads of query for each of key
  int64_t length = 0;
  int64_t keys = 0;
  double scale = 1;
  bool causal = false;
  double dropout = 0;  // a weight's probability to be zero
  uint64_t seed = 0;   // of the numbers that decide that
  Shape leading;       // query's dimensions before the matrices

  // Where matrix i of query's begins in another tensor; grouped heads share one.
  int64_t Offset(const KernelTensor& tensor, int64_t i) const {
    int64_t offset = 0;
    const int missing = leading.size() + 2 - tensor.ndim();
    for (int d = leading.size() - 1; d >= missing && d >= 0; --d) {
      const int own = d - missing;
      int64_t index = i % leading[d];
      i /= leading[d];
      if (tensor.shape[own] == 1) {
        index = 0;
      } else if (tensor.shape[own] != leading[d]) {
        index /= groups;
      }
      offset += index * tensor.strides[own];
    }
    return offset;
  }
  // Columns that some of rows [begin, end) see.
  int64_t ColumnsFor(int64_t end) const { return causal ? std::min(keys, end) : keys; }
  // Of [first, last), how many columns a row sees.
  int64_t Seen(int64_t row, int64_t first, int64_t last) const {
    return causal ? std::clamp<int64_t>(row + 1 - first, 0, last - first) : last - first;
  }
};

// is_causal, scale, enable_gqa, dropout_p; input `key` has the seed of dropout.
AttentionPlan PlanOf(const KernelArgs& args, int key) {
  const Shape& q = args.in(0).shape;
  const Shape& k = args.in(1).shape;
  AttentionPlan plan;
  const int n = q.size();
  for (int d = 0; d < n - 2; ++d) {
    plan.leading.push_back(q[d]);
    plan.batch *= q[d];
  }
  if (args.attrs[2].AsBool() && k[n - 3] > 0) plan.groups = q[n - 3] / k[n - 3];
  plan.length = q[n - 2];
  plan.keys = k[n - 2];
  plan.causal = args.attrs[0].AsBool();
  const double features = static_cast<double>(q.back());
  plan.scale = features > 0 ? 1 / std::sqrt(features) : 1;
  if (args.attrs[1].has_value()) plan.scale = args.attrs[1].AsFloat();
  plan.dropout = args.attrs[3].AsFloat();
  if (plan.dropout > 0) {
    plan.seed = kernels::PhiloxSeed(*reinterpret_cast<const double*>(args.in(key).data));
  }
  return plan;
}

// What dropout multiplies the weights by, for one thread.
template <typename T>
class DropoutRows {
 public:
  explicit DropoutRows(const AttentionPlan& plan)
      : plan_(plan),
        loops_(Loops().layers->attention[static_cast<int>(kernels::kDtypeOf<T>)]),
        factors_(plan.dropout > 0 ? kKeysAtOnce : 0) {}

  // Of row `row` of matrix `matrix`: x *= factors, for n <= kKeysAtOnce weights from `first` on.
  // The second multiplies by the factors of the call before.
  void Multiply(int64_t matrix, int64_t row, int64_t first, int64_t n, T* x) {
    if (plan_.dropout == 0) return;
    const int64_t position = (matrix * plan_.length + row) * plan_.keys + first;
    loops_.dropout(plan_.seed, position, n, plan_.dropout, factors_.data());
    MultiplyAgain(n, x);
  }
  void MultiplyAgain(int64_t n, T* x) const {
    if (plan_.dropout == 0) return;
    for (int64_t i = 0; i < n; ++i) x[i] *= factors_[i];
  }

 private:
  const AttentionPlan& plan_;
  const AttentionLoops& loops_;
  std::vector<T> factors_;
};

// Rows of the mask, for one thread.
template <typename T>
class MaskRows {
 public:
  // `mask` may be absent; it is bool or T, and its last dimension is dense or has one element.
  MaskRows(const AttentionPlan& plan, const KernelTensor* mask) : plan_(plan), mask_(mask) {}

  void StartMatrix(int64_t i) { offset_ = mask_ == nullptr ? 0 : plan_.Offset(*mask_, i); }

  // For columns from `first` on, n <= kKeysAtOnce.
  AttentionMask Row(int64_t row, int64_t first, int64_t n) {
    if (mask_ == nullptr) return {nullptr, nullptr};
    const int d = mask_->ndim() - 2;
    const bool repeats = d < 0 || mask_->shape[d] == 1;
    const char* data = mask_->data + offset_ + (repeats ? 0 : row * mask_->strides[d]);
    const bool one = mask_->shape.back() == 1;
    if (mask_->dtype == Dtype::kBool) {
      const auto* keep = reinterpret_cast<const bool*>(data);
      if (!one) return {nullptr, keep + first};
      std::fill_n(keep_, n, *keep);
      return {nullptr, keep_};
    }
    const auto* bias = reinterpret_cast<const T*>(data);
    if (!one) return {bias + first, nullptr};
    std::fill_n(bias_, n, *bias);
    return {bias_, nullptr};
  }

 private:
  const AttentionPlan& plan_;
  const KernelTensor* const mask_;
  int64_t offset_ = 0;
  bool keep_[kKeysAtOnce];
  T bias_[kKeysAtOnce];
};

// The mask as MaskRows wants it; of no dimensions if there is none.
absl::StatusOr<KernelTensor> MaskOf(const KernelArgs& args, size_t i, Dtype dtype) {
  if (i >= args.inputs.size() || !args.inputs[i].present) return KernelTensor();
  KernelTensor mask = args.inputs[i];
  const Dtype wanted = mask.dtype == Dtype::kBool ? Dtype::kBool : dtype;
  if (mask.ndim() == 0) {
    mask.shape = Shape({1});
    mask.strides = Strides({0});
  }
  const bool fits = mask.shape.back() == 1 || mask.strides.back() == ItemSize(wanted);
  if (mask.dtype == wanted && fits) return mask;
  return Contiguous(args, mask, wanted);
}

template <typename T>
void ScoresOf(const Matrix& q, const Matrix& k, T* scores) {
  SerialGemm(q, Transposed(k), false, scores, kKeysAtOnce);
}

// `rows` rows of scores, as the left side of a product.
template <typename T>
Matrix ScoreMatrix(const T* scores, int64_t rows, int64_t columns) {
  return {reinterpret_cast<const char*>(scores), rows, columns,
          kKeysAtOnce * static_cast<int64_t>(sizeof(T)), sizeof(T)};
}

// Rows from `begin` on of matrix i of query.
template <typename T>
void ForwardBlock(const AttentionPlan& plan, int64_t i, const Matrix& q, const Matrices& k,
                  const Matrices& v, MaskRows<T>& mask, DropoutRows<T>& dropout, int64_t begin,
                  T* scores, T* y, T* lse) {
  const AttentionLoops& loops = Loops().layers->attention[static_cast<int>(kernels::kDtypeOf<T>)];
  const int64_t features = v.columns();
  const int64_t k_offset = plan.Offset(k.tensor, i);
  const int64_t v_offset = plan.Offset(v.tensor, i);
  AttentionRow rows[kRows];
  for (AttentionRow& row : rows) row = {-kInf, 0};
  const int64_t keys = plan.ColumnsFor(begin + q.rows);
  for (int64_t first = 0; first < keys && !StopRequested(); first += kKeysAtOnce) {
    const int64_t last = std::min(keys, first + kKeysAtOnce);
    ScoresOf(q, k.Part(k_offset, first, last), scores);
    for (int64_t r = 0; r < q.rows; ++r) {
      T* const row = scores + r * kKeysAtOnce;
      const int64_t n = plan.Seen(begin + r, first, last);
      const double factor =
          loops.weights(row, n, plan.scale, mask.Row(begin + r, first, n), &rows[r]);
      dropout.Multiply(i, begin + r, first, n, row);
      std::fill_n(row + n, last - first - n, T(0));
      if (first > 0 && factor != 1) loops.scale(y + r * features, features, factor);
    }
    SerialGemm(ScoreMatrix(scores, q.rows, last - first), v.Part(v_offset, first, last), first > 0,
               y, features);
  }
  for (int64_t r = 0; r < q.rows; ++r) {
    const bool dead = rows[r].sum == 0;
    if (keys == 0) std::fill_n(y + r * features, features, T(0));
    loops.scale(y + r * features, features, dead ? 0 : 1 / rows[r].sum);
    lse[r] = static_cast<T>(dead ? kInf : rows[r].max + std::log(rows[r].sum));
  }
}

template <typename T>
absl::Status Forward(const KernelArgs& args) {
  const AttentionPlan plan = PlanOf(args, 4);
  CHX_ASSIGN_OR_RETURN(const Matrices q, DenseRows(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const Matrices k, DenseRows(args, args.in(1)));
  CHX_ASSIGN_OR_RETURN(const Matrices v, DenseRows(args, args.in(2)));
  CHX_ASSIGN_OR_RETURN(const KernelTensor mask, MaskOf(args, 3, args.in(0).dtype));
  const bool masked = mask.ndim() > 0;
  const int64_t features = v.columns();
  const int64_t blocks = (plan.length + kRows - 1) / kRows;
  T* const y = reinterpret_cast<T*>(args.out(0).data);
  T* const lse = reinterpret_cast<T*>(args.out(1).data);
  const double work = static_cast<double>(kRows) * static_cast<double>(plan.keys) *
                      static_cast<double>(1 + q.columns() + features);
  const auto grain = static_cast<int64_t>(std::clamp(4.0 * kGrain / (1 + work), 1.0, 1e9));
  PoolOf(args).ParallelFor(plan.batch * blocks, grain, [&](int64_t first, int64_t last) {
    std::unique_ptr<T[]> scores(new T[kRows * kKeysAtOnce]);
    MaskRows<T> mask_rows(plan, masked ? &mask : nullptr);
    DropoutRows<T> dropout(plan);
    for (int64_t task = first; task < last && !StopRequested(); ++task) {
      const int64_t i = task / blocks;
      const int64_t begin = task % blocks * kRows;
      const int64_t end = std::min(plan.length, begin + kRows);
      mask_rows.StartMatrix(i);
      const int64_t row = i * plan.length + begin;
      ForwardBlock<T>(plan, i, q.Part(plan.Offset(q.tensor, i), begin, end), k, v, mask_rows,
                      dropout, begin, scores.get(), y + row * features, lse + row);
    }
  });
  return absl::OkStatus();
}

// Inputs and outputs of a gradient, and what one thread needs.
template <typename T>
class Backward {
 public:
  Backward(const KernelArgs& args, const AttentionPlan& plan, const Matrices& q, const Matrices& k,
           const Matrices& v, const Matrices& y, const Matrices& gy, const T* lse,
           const KernelTensor* mask)
      : plan_(plan),
        loops_(Loops().layers->attention[static_cast<int>(kernels::kDtypeOf<T>)]),
        q_(q),
        k_(k),
        v_(v),
        y_(y),
        gy_(gy),
        lse_(lse),
        gq_(reinterpret_cast<T*>(args.out(0).data)),
        gk_(reinterpret_cast<T*>(args.out(1).data)),
        gv_(reinterpret_cast<T*>(args.out(2).data)),
        mask_(plan, mask),
        dropout_(plan),
        scores_(new T[2 * kRows * kKeysAtOnce]),
        grads_(scores_.get() + kRows * kKeysAtOnce) {}

  // All of head i of key and value, and the heads of query that share it. `first` is set for the
  // first of them.
  void Head(int64_t i, int64_t kv) {
    const int64_t key_size = plan_.keys * k_.columns();
    const int64_t value_size = plan_.keys * v_.columns();
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    FillZero(gk_ + kv * key_size, key_size * kItem);
    FillZero(gv_ + kv * value_size, value_size * kItem);
    for (int64_t group = 0; group < plan_.groups; ++group) {
      const int64_t query = i + group;
      const int64_t size = plan_.length * q_.columns();
      FillZero(gq_ + query * size, size * kItem);
      mask_.StartMatrix(query);
      for (int64_t begin = 0; begin < plan_.length; begin += kRows) {
        const int64_t end = std::min(plan_.length, begin + kRows);
        for (int64_t r = begin; r < end; ++r) {
          const auto row = [&](const Matrices& m) {
            return m.Part(plan_.Offset(m.tensor, query), r, r + 1).data;
          };
          deltas_[r - begin] = loops_.dot(row(gy_), row(y_), v_.columns());
        }
        const int64_t keys = plan_.ColumnsFor(end);
        for (int64_t first = 0; first < keys && !StopRequested(); first += kKeysAtOnce) {
          Block(query, kv, begin, end, first, std::min(keys, first + kKeysAtOnce));
        }
      }
    }
  }

 private:
  void Block(int64_t query, int64_t kv, int64_t begin, int64_t end, int64_t first, int64_t last) {
    const Matrix q = q_.Part(plan_.Offset(q_.tensor, query), begin, end);
    const Matrix gy = gy_.Part(plan_.Offset(gy_.tensor, query), begin, end);
    const Matrix k = k_.Part(plan_.Offset(k_.tensor, query), first, last);
    const Matrix v = v_.Part(plan_.Offset(v_.tensor, query), first, last);
    ScoresOf(q, k, scores_.get());
    ScoresOf(gy, v, grads_);
    for (int64_t r = begin; r < end; ++r) {
      T* const scores = scores_.get() + (r - begin) * kKeysAtOnce;
      T* const grads = grads_ + (r - begin) * kKeysAtOnce;
      const int64_t n = plan_.Seen(r, first, last);
      dropout_.Multiply(query, r, first, n, grads);
      loops_.grad(scores, grads, n, plan_.scale, mask_.Row(r, first, n),
                  static_cast<double>(lse_[query * plan_.length + r]), deltas_[r - begin]);
      dropout_.MultiplyAgain(n, scores);
      std::fill_n(scores + n, last - first - n, T(0));
      std::fill_n(grads + n, last - first - n, T(0));
    }
    const Matrix weights = ScoreMatrix(scores_.get(), end - begin, last - first);
    const Matrix gscores = ScoreMatrix(grads_, end - begin, last - first);
    const int64_t features = k_.columns();
    const int64_t values = v_.columns();
    SerialGemm(Transposed(weights), gy, true, gv_ + (kv * plan_.keys + first) * values, values);
    SerialGemm(gscores, k, true, gq_ + (query * plan_.length + begin) * features, features);
    SerialGemm(Transposed(gscores), q, true, gk_ + (kv * plan_.keys + first) * features, features);
  }

  const AttentionPlan& plan_;
  const AttentionLoops& loops_;
  const Matrices& q_;
  const Matrices& k_;
  const Matrices& v_;
  const Matrices& y_;
  const Matrices& gy_;
  const T* const lse_;
  T* const gq_;
  T* const gk_;
  T* const gv_;
  MaskRows<T> mask_;
  DropoutRows<T> dropout_;
  const std::unique_ptr<T[]> scores_;
  T* const grads_;
  double deltas_[kRows];
};

template <typename T>
absl::Status Gradient(const KernelArgs& args) {
  const AttentionPlan plan = PlanOf(args, 7);
  CHX_ASSIGN_OR_RETURN(const Matrices q, DenseRows(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const Matrices k, DenseRows(args, args.in(1)));
  CHX_ASSIGN_OR_RETURN(const Matrices v, DenseRows(args, args.in(2)));
  CHX_ASSIGN_OR_RETURN(const Matrices y, DenseRows(args, args.in(3)));
  CHX_ASSIGN_OR_RETURN(const Matrices gy, DenseRows(args, args.in(5)));
  CHX_ASSIGN_OR_RETURN(const KernelTensor lse, Contiguous(args, args.in(4), args.in(0).dtype));
  CHX_ASSIGN_OR_RETURN(const KernelTensor mask, MaskOf(args, 6, args.in(0).dtype));
  const KernelTensor* const given = mask.ndim() > 0 ? &mask : nullptr;
  const int64_t heads = plan.batch / plan.groups;
  PoolOf(args).ParallelFor(heads, 1, [&](int64_t first, int64_t last) {
    Backward<T> backward(args, plan, q, k, v, y, gy, reinterpret_cast<const T*>(lse.data), given);
    for (int64_t head = first; head < last && !StopRequested(); ++head) {
      backward.Head(head * plan.groups, head);
    }
  });
  return absl::OkStatus();
}

bool IsMine(const KernelArgs& args, std::initializer_list<int> inputs) {
  const Dtype dtype = args.in(0).dtype;
  if (dtype != Dtype::kFloat32 && dtype != Dtype::kFloat64) return false;
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](int i) { return args.in(i).dtype == dtype; });
}

// Whether BLAS takes the sizes.
bool IsTooLong(const KernelArgs& args) {
  for (int i = 0; i < 3; ++i) {
    const Shape& shape = args.in(i).shape;
    if (std::max(shape.back(), shape[shape.size() - 2]) > INT32_MAX) return true;
  }
  return false;
}

// query, key, value, attn_mask?, dropout_key?; is_causal, scale, enable_gqa, dropout_p.
absl::Status RunAttention(const KernelArgs& given) {
  if (IsTooLong(given)) return absl::UnimplementedError("");
  return RunWide(given, [](const KernelArgs& args) {
    if (!IsMine(args, {0, 1, 2})) return absl::UnimplementedError("");
    if (args.out(1).size() == 0) return absl::OkStatus();
    return args.in(0).dtype == Dtype::kFloat64 ? Forward<double>(args) : Forward<float>(args);
  });
}

// query, key, value, y, lse, gy, attn_mask?, dropout_key?; is_causal, scale, enable_gqa, dropout_p,
// mask_grad.
absl::Status RunAttentionGrad(const KernelArgs& given) {
  if (IsTooLong(given) || given.attrs[4].AsBool()) return absl::UnimplementedError("");
  for (int i = 0; i < 3; ++i) {
    if (given.in(i).size() == 0) return absl::UnimplementedError("");
  }
  return RunWide(given, [](const KernelArgs& args) {
    if (!IsMine(args, {0, 1, 2, 3, 5})) return absl::UnimplementedError("");
    return args.in(0).dtype == Dtype::kFloat64 ? Gradient<double>(args) : Gradient<float>(args);
  });
}

}  // namespace

void RegisterAttention(KernelTable& table) {
  table.Set("attention_forward", RunAttention);
  table.Set("attention_grad", RunAttentionGrad);
}

}  // namespace chx::server::native
