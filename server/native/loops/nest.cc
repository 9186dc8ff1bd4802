#include "server/native/loops/nest.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "ops/error.h"
#include "server/kernels/dispatch.h"
#include "server/native/loops/transpose.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::IsContiguous;
using kernels::LoopNest;

// Rows and columns of a tile where operands disagree about which dimension is dense.
constexpr int64_t kTile = 32;
constexpr int64_t kMaxItem = 8;  // bytes

template <int N>
void Advance(char* (&at)[N], const int64_t (&offsets)[N]) {
  for (int k = 0; k < N; ++k) at[k] += offsets[k];
}

// A one-dimensional nest.
template <int N>
void RunFlat(ThreadPool& pool, int64_t n, const int64_t (&strides)[N], char* const (&data)[N],
             Loop loop) {
  if (n < 2 * kGrain) {
    loop(data, strides, n);
    return;
  }
  pool.ParallelFor(n, kGrain, [&](int64_t begin, int64_t end) {
    char* at[N];
    for (int k = 0; k < N; ++k) at[k] = data[k] + begin * strides[k];
    loop(at, strides, end - begin);
  });
}

// Whether some operand's memory runs along the second-innermost dimension.
template <int N>
bool IsTransposed(const LoopNest<N>& nest) {
  const int inner = nest.ndim - 1;
  if (nest.shape[inner] < kTile || nest.shape[inner - 1] < kTile) return false;
  for (int k = 0; k < N; ++k) {
    const int64_t along = std::abs(nest.strides[k][inner]);
    const int64_t across = std::abs(nest.strides[k][inner - 1]);
    if (along >= 64 && across < along) return true;
  }
  return false;
}

// Whether the innermost dimension is so short that a call of the loop takes longer than its
// elements, and the next one is not. Its elements lie on few cache lines, which are read again for
// each.
template <int N>
bool IsShortInside(const LoopNest<N>& nest) {
  constexpr int64_t kShort = 8;
  constexpr int64_t kMostLines = 1024;
  const int64_t inner = nest.shape[nest.ndim - 1];
  const int64_t next = nest.shape[nest.ndim - 2];
  return inner <= kShort && next > inner && next <= kMostLines;
}

template <int N>
void SwapInnermost(LoopNest<N>* nest) {
  const int inner = nest->ndim - 1;
  std::swap(nest->shape[inner], nest->shape[inner - 1]);
  for (int k = 0; k < N; ++k) std::swap(nest->strides[k][inner], nest->strides[k][inner - 1]);
}

// Whether the loop copies elements as they are.
bool IsCopy(Loop loop) {
  const LoopSet& loops = Loops();
  bool copies = false;
  for (int dtype = 0; dtype < kNumDtypes; ++dtype) copies |= loop == loops.cast[dtype][dtype];
  return copies;
}

// Inputs whose columns are dense are transposed tile by tile.
template <int N>
void RunTiled(ThreadPool& pool, const LoopNest<N>& nest, char* const (&data)[N],
              const int64_t (&items)[N], Loop loop) {
  const int inner = nest.ndim - 1;
  const int64_t columns = nest.shape[inner];
  const int64_t rows = nest.shape[inner - 1];
  LoopNest<N> outer = nest;
  outer.ndim = nest.ndim - 2;
  int64_t row_strides[N];
  int64_t column_strides[N];
  bool turned[N] = {};
  int64_t tile_row_strides[N];
  int64_t tile_column_strides[N];
  for (int k = 0; k < N; ++k) {
    row_strides[k] = tile_row_strides[k] = nest.strides[k][inner - 1];
    column_strides[k] = tile_column_strides[k] = nest.strides[k][inner];
    // Operand 0 is the output.
    turned[k] = k > 0 && row_strides[k] == items[k] && std::abs(column_strides[k]) > items[k];
    if (!turned[k]) continue;
    tile_row_strides[k] = kTile * items[k];
    tile_column_strides[k] = items[k];
  }
  // To their places at once, unless the rows there share sets of the cache.
  constexpr int64_t kSharing = 512;  // bytes
  const bool moves = N == 2 && turned[N - 1] && column_strides[0] == items[0] &&
                     row_strides[0] % kSharing != 0 && IsCopy(loop);
  const int64_t bands = (rows + kTile - 1) / kTile;
  const int64_t tasks = nest.size / (rows * columns) * bands;
  const int64_t grain = std::max<int64_t>(1, kGrain / (kTile * columns));
  pool.ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
    StopWatch watch;
    alignas(64) char copies[N][kTile * kTile * kMaxItem];
    for (int64_t task = begin; task < end; ++task) {
      int64_t offsets[N];
      outer.Offsets(task / bands, offsets);
      const int64_t first_row = task % bands * kTile;
      const int64_t last_row = std::min(first_row + kTile, rows);
      for (int64_t column = 0; column < columns; column += kTile) {
        const int64_t count = std::min(kTile, columns - column);
        if (watch.After(kTile * kTile)) return;
        char* at[N];
        for (int k = 0; k < N; ++k) {
          at[k] = data[k] + offsets[k] + first_row * row_strides[k] + column * column_strides[k];
          if (!turned[k]) continue;
          if (moves) {
            TransposeTile(items[0], at[k], column_strides[k], count, last_row - first_row, at[0],
                          row_strides[0]);
            break;
          }
          TransposeTile(items[k], at[k], column_strides[k], count, last_row - first_row, copies[k],
                        tile_row_strides[k]);
          at[k] = copies[k];
        }
        for (int64_t row = first_row; row < last_row && !moves; ++row) {
          loop(at, tile_column_strides, count);
          Advance(at, tile_row_strides);
        }
      }
    }
  });
}

}  // namespace

template <int N>
void RunNest(ThreadPool& pool, const LoopNest<N>& nest, char* const (&data)[N],
             const int64_t (&items)[N], Loop loop) {
  if (nest.size == 0) return;
  int64_t inner_strides[N];
  for (int k = 0; k < N; ++k)
    inner_strides[k] = nest.ndim == 0 ? 0 : nest.strides[k][nest.ndim - 1];
  if (nest.ndim <= 1) {
    RunFlat(pool, nest.size, inner_strides, data, loop);
    return;
  }
  if (IsTransposed(nest)) {
    RunTiled(pool, nest, data, items, loop);
    return;
  }
  if (IsShortInside(nest)) {
    LoopNest<N> turned = nest;
    SwapInnermost(&turned);
    RunNest(pool, turned, data, items, loop);
    return;
  }
  const int64_t inner = nest.shape[nest.ndim - 1];
  pool.ParallelFor(nest.size, kGrain, [&](int64_t begin, int64_t end) {
    // The index of the row, and pointers to it, advanced like an odometer.
    int64_t index[kMaxNdim] = {};
    int64_t linear = begin / inner;
    char* row[N];
    for (int k = 0; k < N; ++k) row[k] = data[k];
    for (int d = nest.ndim - 2; d >= 0; --d) {
      index[d] = linear % nest.shape[d];
      linear /= nest.shape[d];
      for (int k = 0; k < N; ++k) row[k] += index[d] * nest.strides[k][d];
    }
    int64_t column = begin % inner;
    for (int64_t left = end - begin; left > 0;) {
      const int64_t count = std::min(left, inner - column);
      char* at[N];
      for (int k = 0; k < N; ++k) at[k] = row[k] + column * inner_strides[k];
      loop(at, inner_strides, count);
      left -= count;
      column = 0;
      for (int d = nest.ndim - 2; d >= 0; --d) {
        for (int k = 0; k < N; ++k) row[k] += nest.strides[k][d];
        if (++index[d] < nest.shape[d]) break;
        for (int k = 0; k < N; ++k) row[k] -= nest.shape[d] * nest.strides[k][d];
        index[d] = 0;
      }
    }
  });
}

template void RunNest(ThreadPool&, const LoopNest<1>&, char* const (&)[1], const int64_t (&)[1],
                      Loop);
template void RunNest(ThreadPool&, const LoopNest<2>&, char* const (&)[2], const int64_t (&)[2],
                      Loop);
template void RunNest(ThreadPool&, const LoopNest<3>&, char* const (&)[3], const int64_t (&)[3],
                      Loop);
template void RunNest(ThreadPool&, const LoopNest<4>&, char* const (&)[4], const int64_t (&)[4],
                      Loop);
template void RunNest(ThreadPool&, const LoopNest<5>&, char* const (&)[5], const int64_t (&)[5],
                      Loop);

void StoreScalar(const Scalar& scalar, Dtype dtype, char* buffer) {
  kernels::VisitDtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const T value = kernels::ScalarAs<T>(scalar);
    std::memcpy(buffer, &value, sizeof(value));
  });
}

namespace {

template <int N>
void RunOperands(ThreadPool& pool, const KernelArgs& args, Loop loop) {
  const KernelTensor& out = args.out(0);
  alignas(8) char scalars[N][8];
  char* data[N];
  int64_t flat_strides[N];
  int64_t items[N];
  const Strides* strides[N];
  const Strides zeros(out.ndim(), 0);
  bool flat = true;
  for (int k = 0; k < N; ++k) {
    const KernelTensor& operand = k == 0 ? out : args.in(k - 1);
    items[k] = ItemSize(operand.dtype);
    if (operand.is_scalar) {
      StoreScalar(operand.scalar, operand.dtype, scalars[k]);
      data[k] = scalars[k];
      flat_strides[k] = 0;
      strides[k] = &zeros;
    } else {
      data[k] = operand.data;
      flat_strides[k] = items[k];
      strides[k] = &operand.strides;
      flat = flat && IsContiguous(out.shape, operand.strides, flat_strides[k]);
    }
  }
  if (flat) {
    RunFlat(pool, out.size(), flat_strides, data, loop);
  } else {
    RunNest(pool, kernels::MakeLoopNest(out.shape, strides), data, items, loop);
  }
}

}  // namespace

absl::Status RunLoop(const KernelArgs& args, Loop loop) {
  if (loop == nullptr) {
    return DtypeError("[", args.op.name, "] is not defined for ", DtypeName(args.in(0).dtype));
  }
  if (args.out(0).size() == 0) return absl::OkStatus();
  ThreadPool& pool = PoolOf(args);
  switch (args.inputs.size()) {
    case 1:
      RunOperands<2>(pool, args, loop);
      break;
    case 2:
      RunOperands<3>(pool, args, loop);
      break;
    case 3:
      RunOperands<4>(pool, args, loop);
      break;
    default:
      RunOperands<5>(pool, args, loop);
      break;
  }
  return absl::OkStatus();
}

void RunUnary(ThreadPool& pool, const KernelTensor& in, const KernelTensor& out, Loop loop) {
  Strides in_strides(out.ndim(), 0);
  const int missing = out.ndim() - in.ndim();
  for (int d = 0; d < in.ndim(); ++d) {
    if (in.shape[d] != 1) in_strides[missing + d] = in.strides[d];
  }
  const Strides* const strides[2] = {&out.strides, &in_strides};
  char* const data[2] = {out.data, in.data};
  const int64_t items[2] = {ItemSize(out.dtype), ItemSize(in.dtype)};
  RunNest(pool, kernels::MakeLoopNest(out.shape, strides), data, items, loop);
}

}  // namespace chx::server::native
