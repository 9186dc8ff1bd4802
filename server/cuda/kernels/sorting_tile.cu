// Kernels of ops/defs/sorting.cc: rows that fit into a block's shared memory, by radix sort.
#include "server/cuda/kernels/sorting_tile.h"

#include <algorithm>

#include "ops/error.h"
#include "server/cuda/loops/launch.h"

#ifdef __CUDACC__
#include <cub/block/block_radix_rank.cuh>
#else
#include <numeric>
#include <vector>
#endif

namespace chx::server::cuda {
namespace {

constexpr int kItems = 16;  // elements of a thread
constexpr int kDigitBits = 4;
// What a launch's parts are measured in: sorting an element takes as long as this many loads.
constexpr int64_t kCost = 64;

// One digit of the ranks, for CUB.
template <typename Key>
struct RankDigit {
  KeyOrder<Key> order;
  int bit;
  CHX_HD uint32_t Digit(Key key) const {
    return static_cast<uint32_t>(order.RankOf(key) >> bit) & ((1 << kDigitBits) - 1);
  }
};

// Behind a row's end are keys that come last: they are not before equal ones, as the sort is
// stable.
template <typename KeyType, bool kOfPositions>
struct TileBody {
  using Key = KeyType;
  static constexpr bool kPositions = kOfPositions;
  // Of a multiprocessor, at least, for whose registers the kernel is compiled.
  static constexpr int kThreadsTogether = sizeof(Key) == 4 && !kPositions ? 768 : 512;
  KeyOrder<Key> order;
  SliceRows rows;
  const char* in;
  char* out;

  CHX_HD Key Load(int64_t row, int at) const {
    if (at >= rows.size()) return KeyOrder<Key>::kGreatest;
    return order.KeyOf(order.Load(in, rows.Position(row, at)));
  }
  CHX_HD void StoreKey(int64_t row, int at, Key key) const {
    order.Store(out, rows.Position(row, at), order.ElementOf(key));
  }
  CHX_HD void StorePosition(int64_t row, int at, uint32_t position) const {
    reinterpret_cast<int64_t*>(out)[rows.Position(row, at)] = position;
  }
};

#ifdef __CUDACC__

// With gaps, so that threads find the elements they keep in different banks.
__device__ __forceinline__ constexpr int Padded(int at) { return at + at / 32; }

// Moves each item to its rank. Thread t keeps items [t * kItems, (t + 1) * kItems).
template <typename T>
__device__ __forceinline__ void Exchange(T* shared, const int (&ranks)[kItems],
                                         T (&items)[kItems]) {
  CHX_UNROLL
  for (int i = 0; i < kItems; ++i) shared[Padded(ranks[i])] = items[i];
  __syncthreads();
  const int begin = static_cast<int>(threadIdx.x) * kItems;
  CHX_UNROLL
  for (int i = 0; i < kItems; ++i) items[i] = shared[Padded(begin + i)];
  __syncthreads();
}

// Digit by digit, as cub::BlockRadixSort, whose digits are of the keys themselves.
template <int kBlock, typename Body>
__global__ void __launch_bounds__(kBlock, Body::kThreadsTogether / kBlock)
    TileKernel(const Body body, int64_t first, int64_t last) {
  using Key = typename Body::Key;
  using Rank = cub::BlockRadixRank<kBlock, kDigitBits, false>;
  constexpr int kTile = kBlock * kItems;
  __shared__ union {
    typename Rank::TempStorage rank;
    Key keys[kTile + kTile / 32];
    uint32_t positions[kTile + kTile / 32];
  } shared;
  const int thread = static_cast<int>(threadIdx.x);
  for (int64_t row = first + blockIdx.x; row < last; row += gridDim.x) {
#pragma unroll 4
    for (int at = thread; at < kTile; at += kBlock) shared.keys[Padded(at)] = body.Load(row, at);
    __syncthreads();
    Key keys[kItems];
    uint32_t positions[kItems];
    CHX_UNROLL
    for (int i = 0; i < kItems; ++i) {
      keys[i] = shared.keys[Padded(thread * kItems + i)];
      positions[i] = thread * kItems + i;
    }
    __syncthreads();
    for (int bit = 0; bit < body.order.bits(); bit += kDigitBits) {
      int ranks[kItems];
      Rank(shared.rank).RankKeys(keys, ranks, RankDigit<Key>{body.order, bit});
      __syncthreads();
      Exchange(shared.keys, ranks, keys);
      if constexpr (Body::kPositions) Exchange(shared.positions, ranks, positions);
    }
    CHX_UNROLL
    for (int i = 0; i < kItems; ++i) {
      if constexpr (Body::kPositions) {
        shared.positions[Padded(thread * kItems + i)] = positions[i];
      } else {
        shared.keys[Padded(thread * kItems + i)] = keys[i];
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int at = thread; at < body.rows.size(); at += kBlock) {
      if constexpr (Body::kPositions) {
        body.StorePosition(row, at, shared.positions[Padded(at)]);
      } else {
        body.StoreKey(row, at, shared.keys[Padded(at)]);
      }
    }
    __syncthreads();
  }
}

#else

template <typename Body>
void EmulateTile(const Body& body, int tile, int64_t row) {
  using Key = typename Body::Key;
  std::vector<Key> keys(tile);
  for (int at = 0; at < tile; ++at) keys[at] = body.Load(row, at);
  std::vector<uint32_t> positions(tile);
  std::iota(positions.begin(), positions.end(), 0);
  for (int bit = 0; bit < body.order.bits(); bit += kDigitBits) {
    const RankDigit<Key> digit{body.order, bit};
    std::stable_sort(positions.begin(), positions.end(), [&](uint32_t a, uint32_t b) {
      return digit.Digit(keys[a]) < digit.Digit(keys[b]);
    });
  }
  for (int at = 0; at < body.rows.size(); ++at) {
    if constexpr (Body::kPositions) {
      body.StorePosition(row, at, positions[at]);
    } else {
      body.StoreKey(row, at, keys[positions[at]]);
    }
  }
}

#endif

template <int kBlock, typename Body>
absl::Status LaunchTiles(const KernelArgs& args, const Body& body) {
  constexpr int kTile = kBlock * kItems;
  KernelStream& stream = StreamOf(args);
  const int64_t rows = body.rows.count();
  const int64_t part = std::max<int64_t>(1, stream.max_launch_elements() / (kCost * kTile));
  for (int64_t first = 0; first < rows;) {
    if (first > 0) CHX_RETURN_IF_ERROR(stream.Pause());
    const int64_t last = rows - first > part ? first + part : rows;
#ifdef __CUDACC__
    const auto grid = static_cast<unsigned>(std::min(kMaxBlocks, last - first));
    const auto handle = static_cast<cudaStream_t>(stream.handle());
    TileKernel<kBlock><<<grid, kBlock, 0, handle>>>(body, first, last);
    CHX_RETURN_IF_ERROR(stream.Launched());
#else
    stream.Emulate([body, first, last] {
      for (int64_t row = first; row < last; ++row) EmulateTile(body, kTile, row);
    });
#endif
    first = last;
  }
  return absl::OkStatus();
}

template <typename Key, bool kPositions>
absl::Status Sort(const KernelArgs& args, const SortCall& call) {
  const TileBody<Key, kPositions> body{KeyOrder<Key>(call.dtype), call.rows, call.in, call.out};
  const int64_t size = call.rows.size();
  if (size <= 32 * kItems) return LaunchTiles<32>(args, body);
  if (size <= 64 * kItems) return LaunchTiles<64>(args, body);
  if (size <= 128 * kItems) return LaunchTiles<128>(args, body);
  static_assert(kMaxTile == 256 * kItems, "the largest tile");
  return LaunchTiles<256>(args, body);
}

}  // namespace

absl::Status SortTiles(const KernelArgs& args, const SortCall& call) {
  if (ItemSize(call.dtype) == 8) {
    return call.positions ? Sort<uint64_t, true>(args, call) : Sort<uint64_t, false>(args, call);
  }
  return call.positions ? Sort<uint32_t, true>(args, call) : Sort<uint32_t, false>(args, call);
}

}  // namespace chx::server::cuda
