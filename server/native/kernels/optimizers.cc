// Kernels of ops/defs/optimizers.cc.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "server/engine/stop_token.h"
#include "server/kernels/axis.h"
#include "server/kernels/update_attrs.h"
#include "server/native/kernels/index_bounds.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/loops/update_loops.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/scratch.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

UpdateLoop LoopOf(int rule, Dtype dtype) {
  const UpdateLoops& loops = *Loops().updates;
  if (dtype == Dtype::kFloat16) return loops.float16[rule];
  if (dtype == Dtype::kBfloat16) return loops.bfloat16[rule];
  return dtype == Dtype::kFloat32 ? loops.float32[rule] : loops.float64[rule];
}

template <int kRule, int kLists>
absl::Status RunUpdate(const KernelArgs& args) {
  const absl::InlinedVector<double, 8> attrs = kernels::UpdateAttrs(args.attrs);
  const size_t length = args.inputs.size() / kLists;
  for (size_t k = 0; k < length; ++k) {
    const KernelTensor& param = args.in(static_cast<int>(k));
    const UpdateLoop loop = LoopOf(kRule, param.dtype);
    const int64_t item_size = ItemSize(param.dtype);
    PoolOf(args).ParallelFor(param.size(), kGrain, [&](int64_t begin, int64_t end) {
      std::array<char*, kLists> lists;
      for (size_t l = 0; l < kLists; ++l) {
        lists[l] = args.inputs[l * length + k].data + begin * item_size;
      }
      loop(lists.data(), end - begin, attrs.data());
    });
  }
  return absl::OkStatus();
}

// Positions of gradients of rows, ordered by the row that they belong to, and where those of each
// row that is updated begin.
struct RowOrder {
  const int64_t* positions;
  const int64_t* rows;    // null: all rows are updated
  const int64_t* begins;  // and where the last one's end
  int64_t count;          // of rows
};

// Sorts positions by `indices`, stably, some bits after the others; returns one of two arrays.
int64_t* SortByRow(const int64_t* indices, int64_t count, int64_t rows, int64_t* positions,
                   int64_t* others) {
  constexpr int kBits = 11;
  for (int64_t i = 0; i < count; ++i) positions[i] = i;
  for (int shift = 0; shift < 63 && (rows - 1) >> shift > 0; shift += kBits) {
    const auto digit = [&](int64_t i) { return indices[i] >> shift & ((1 << kBits) - 1); };
    int64_t begins[1 << kBits] = {};
    for (int64_t i = 0; i < count; ++i) ++begins[digit(i)];
    int64_t sum = 0;
    for (int64_t& begin : begins) begin = std::exchange(sum, sum + begin);
    for (int64_t i = 0; i < count; ++i) others[begins[digit(positions[i])]++] = positions[i];
    std::swap(positions, others);
  }
  return positions;
}

// `all`: with the rows that have no gradients, too. A row's positions stay in their order.
absl::StatusOr<RowOrder> OrderByRow(const KernelArgs& args, const int64_t* indices, int64_t count,
                                    int64_t rows, bool all) {
  const auto array = [&](int64_t n) -> absl::StatusOr<int64_t*> {
    CHX_ASSIGN_OR_RETURN(const KernelTensor tensor, NewTensor(args, Dtype::kInt64, {n}));
    return reinterpret_cast<int64_t*>(tensor.data);
  };
  CHX_ASSIGN_OR_RETURN(int64_t* const positions, array(count));
  CHX_ASSIGN_OR_RETURN(int64_t* const others, array(count));
  const int64_t* const sorted = SortByRow(indices, count, rows, positions, others);
  CHX_ASSIGN_OR_RETURN(int64_t* const begins, array((all ? rows : count) + 1));
  if (all) {
    int64_t i = 0;
    for (int64_t row = 0; row <= rows; ++row) {
      while (i < count && indices[sorted[i]] < row) ++i;
      begins[row] = i;
    }
    return RowOrder{sorted, nullptr, begins, rows};
  }
  CHX_ASSIGN_OR_RETURN(int64_t* const taken, array(count));
  int64_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = indices[sorted[i]];
    if (found > 0 && taken[found - 1] == row) continue;
    taken[found] = row;
    begins[found++] = i;
  }
  begins[found] = count;
  return RowOrder{sorted, taken, begins, found};
}

// A step of the rows of `order`, as with the gradient that take_grad would make of gy, a dense
// array in the dtype that it adds in.
void UpdateRows(const KernelArgs& args, UpdateLoop update, const double* attrs,
                const KernelTensor& param, const KernelTensor& gy, const RowOrder& order) {
  using kernels::BinaryArithmeticFns;
  const Loop add = Loops().arithmetic[kernels::kFnIndex<kernels::Add, BinaryArithmeticFns>]
                                     [static_cast<int>(gy.dtype)];
  const Loop round = CastLoop(gy.dtype, param.dtype);
  const bool rounds = gy.dtype != param.dtype;
  const int64_t sum_size = ItemSize(gy.dtype);
  const int64_t item_size = ItemSize(param.dtype);
  constexpr int64_t kColumns = 512;
  const int64_t columns = param.size() / param.shape[0];
  const int64_t chunks = (columns + kColumns - 1) / kColumns;
  const int64_t tasks = order.count * chunks;
  const int64_t work = std::min(columns, kColumns) + gy.size() / std::max<int64_t>(1, tasks);
  const int64_t grain = std::max<int64_t>(1, kGrain / work);
  PoolOf(args).ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
    alignas(64) char sum[kColumns * sizeof(double)];
    alignas(64) char rounded[kColumns * sizeof(double)];
    StopWatch watch;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t number = task / chunks;
      const int64_t row = order.rows == nullptr ? number : order.rows[number];
      const int64_t column = task % chunks * kColumns;
      const int64_t width = std::min(kColumns, columns - column);
      if (watch.After(width)) break;
      std::memset(sum, 0, static_cast<size_t>(width * sum_size));
      for (int64_t i = order.begins[number]; i < order.begins[number + 1]; ++i) {
        if (watch.After(width)) return;
        char* const from = gy.data + (order.positions[i] * columns + column) * sum_size;
        char* const data[3] = {sum, sum, from};
        const int64_t strides[3] = {sum_size, sum_size, sum_size};
        add(data, strides, width);
      }
      char* grad = sum;
      if (rounds) {
        grad = rounded;
        char* const data[2] = {rounded, sum};
        const int64_t strides[2] = {item_size, sum_size};
        round(data, strides, width);
      }
      char* const lists[2] = {param.data + (row * columns + column) * item_size, grad};
      update(lists, width, attrs);
    }
  });
}

// All indices are looked at before anything is written.
template <int kRule>
absl::Status RunRowUpdate(const KernelArgs& args) {
  const absl::InlinedVector<double, 8> attrs = kernels::UpdateAttrs(args.attrs);
  const size_t length = args.inputs.size() / 3;
  absl::InlinedVector<KernelTensor, 4> grads;
  absl::InlinedVector<RowOrder, 4> orders;
  for (size_t k = 0; k < length; ++k) {
    const KernelTensor& param = args.inputs[k];
    const KernelTensor& indices = args.inputs[2 * length + k];
    CHX_ASSIGN_OR_RETURN(const int64_t* const rows,
                         ResolveIndices(args, indices, kernels::IndexMode::kRaise, param.shape[0]));
    // A gradient of zero changes nothing, unless the rate makes NaN or -0 of it.
    const double rate = param.dtype == Dtype::kFloat64 ? attrs[0] : static_cast<float>(attrs[0]);
    const bool all = !std::isfinite(rate) || std::signbit(rate);
    CHX_ASSIGN_OR_RETURN(orders.emplace_back(),
                         OrderByRow(args, rows, indices.size(), param.shape[0], all));
    CHX_ASSIGN_OR_RETURN(grads.emplace_back(),
                         Contiguous(args, args.inputs[length + k], WorkDtype(param.dtype)));
  }
  for (size_t k = 0; k < length; ++k) {
    const KernelTensor& param = args.inputs[k];
    if (param.size() == 0) continue;
    UpdateRows(args, LoopOf(kRule, param.dtype), attrs.data(), param, grads[k], orders[k]);
  }
  return absl::OkStatus();
}

template <template <typename> class... Rules, size_t... kIndex>
void SetAll(KernelTable& table, kernels::RuleList<Rules...>, std::index_sequence<kIndex...>) {
  (table.Set(Rules<float>::kName, RunUpdate<static_cast<int>(kIndex), Rules<float>::kLists>), ...);
}

}  // namespace

void RegisterOptimizers(KernelTable& table) {
  using kernels::UpdateRules;
  SetAll(table, UpdateRules(), std::make_index_sequence<UpdateRules::kSize>());
  table.Set("sgd_update_rows", RunRowUpdate<kernels::kRuleIndex<kernels::Sgd, UpdateRules>>);
}

}  // namespace chx::server::native
