// Kernels of ops/defs/sorting.cc: sort and argsort, of all slices along the axis.
//
// A row of up to kMaxTile elements is sorted by one block. Longer rows, and many that would leave
// most of their block idle, are sorted together: by their elements, then by their rows.
#include <algorithm>
#include <type_traits>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/sorting_keys.h"
#include "server/cuda/kernels/sorting_order.h"
#include "server/cuda/kernels/sorting_tile.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/axis.h"

namespace chx::server::cuda {
namespace {

// Elements that are sorted together need up to 24 bytes of scratch memory each. More are sorted in
// parts; this many occupy a whole GPU.
constexpr int64_t kPart = int64_t{1} << 24;
// Sorting an element takes as long as this many loads.
constexpr int64_t kCost = 64;

// Rows [first, first + count), one after another.
struct RowRange {
  SliceRows rows;
  Divider size;
  int64_t first = 0;

  RowRange(const SliceRows& all, int64_t from, int64_t count)
      : rows(all), size(all.size(), count * all.size()), first(from) {}
  CHX_HD int64_t Position(int64_t i) const {
    const int64_t row = size.Quotient(i);
    return rows.Position(first + row, i - row * size.divisor());
  }
};

template <typename Key, typename Value>
struct FillBody {
  RowRange range;
  KeyOrder<Key> order;
  const char* in;
  Key* keys;
  Value* values;
  bool rows_in_keys;
  bool elements;  // are the values; else positions in the range
  CHX_HD void operator()(int64_t i) const {
    const Key element = order.Load(in, range.Position(i));
    Key key = order.RankOf(order.KeyOf(element));
    if (rows_in_keys) key |= static_cast<Key>(range.size.Quotient(i)) << order.bits();
    keys[i] = key;
    values[i] = elements ? static_cast<Value>(element) : static_cast<Value>(i);
  }
};

struct RowBody {
  const uint32_t* positions;
  uint32_t* rows;
  Divider size;
  CHX_HD void operator()(int64_t i) const {
    rows[i] = static_cast<uint32_t>(size.Quotient(positions[i]));
  }
};

// What is sorted to place i of the range.
template <typename Key, typename Value>
struct WriteBody {
  RowRange range;
  KeyOrder<Key> order;
  const char* in;
  char* out;
  const Value* values;
  bool elements;
  bool positions;
  CHX_HD void operator()(int64_t i) const {
    const auto value = static_cast<int64_t>(values[i]);
    const int64_t to = range.Position(i);
    if (positions) {
      const int64_t row = range.size.Quotient(i);
      reinterpret_cast<int64_t*>(out)[to] = value - row * range.size.divisor();
    } else {
      order.Store(out, to,
                  elements ? static_cast<Key>(value) : order.Load(in, range.Position(value)));
    }
  }
};

template <typename Key, typename Value>
absl::Status SortParts(const KernelArgs& args, const SortCall& call) {
  KernelStream& stream = StreamOf(args);
  const KeyOrder<Key> order(call.dtype);
  const int64_t size = call.rows.size();
  const int64_t most = stream.max_launch_elements() / kCost;
  const int64_t rows =
      std::min(call.rows.count(), std::max<int64_t>(1, std::min(kPart, most) / size));
  KeyValues<Key, Value> pairs;
  for (int i = 0; i < 2; ++i) {
    CHX_ASSIGN_OR_RETURN(pairs.keys[i], NewScratch<Key>(args, rows * size));
    CHX_ASSIGN_OR_RETURN(pairs.values[i], NewScratch<Value>(args, rows * size));
  }
  const int row_bits = rows == 1 ? 0 : BitsBelow(rows);
  const bool at_once = order.bits() + row_bits <= 8 * static_cast<int>(sizeof(Key));
  const bool elements = at_once && !call.positions && sizeof(Value) >= sizeof(Key);
  SortMemory memory;
  SortMemory memory_of_rows;
  int64_t since_pause = 0;
  for (int64_t first = 0; first < call.rows.count(); first += rows) {
    const int64_t count = std::min(rows, call.rows.count() - first);
    const int64_t n = count * size;
    if (since_pause + n > most && since_pause > 0) {
      CHX_RETURN_IF_ERROR(stream.Pause());
      since_pause = 0;
    }
    since_pause += n;
    const RowRange range(call.rows, first, count);
    CHX_RETURN_IF_ERROR(
        ForEach(args, n,
                FillBody<Key, Value>{range, order, call.in, pairs.keys[0], pairs.values[0],
                                     at_once && row_bits > 0, elements}));
    CHX_RETURN_IF_ERROR(
        SortByKeys(args, n, order.bits() + (at_once ? row_bits : 0), &memory, &pairs));
    if constexpr (std::is_same<Value, uint32_t>::value) {
      if (!at_once) {
        KeyValues<uint32_t, uint32_t> by_row;
        for (int i = 0; i < 2; ++i) {
          by_row.keys[i] = reinterpret_cast<uint32_t*>(pairs.keys[i]);
          by_row.values[i] = pairs.values[i];
        }
        CHX_RETURN_IF_ERROR(
            ForEach(args, n, RowBody{by_row.values[0], by_row.keys[0], range.size}));
        CHX_RETURN_IF_ERROR(SortByKeys(args, n, row_bits, &memory_of_rows, &by_row));
        for (int i = 0; i < 2; ++i) pairs.values[i] = by_row.values[i];
      }
    }
    CHX_RETURN_IF_ERROR(ForEach(args, n,
                                WriteBody<Key, Value>{range, order, call.in, call.out,
                                                      pairs.values[0], elements, call.positions}));
  }
  return absl::OkStatus();
}

bool UsesTiles(const SliceRows& rows) {
  // A row of a block's own takes the time of some 500 elements at least.
  return rows.size() <= kMaxTile && (rows.size() > 256 || rows.count() <= 4096);
}

absl::Status Run(const KernelArgs& args, bool positions) {
  const KernelTensor& out = args.out(0);
  if (out.size() == 0) return absl::OkStatus();
  CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
  CHX_ASSIGN_OR_RETURN(const kernels::AxisSlices slices,
                       kernels::SlicesOf(args.op.name, a.shape, args.attrs[0]));
  const SortCall call{a.dtype, SliceRows(slices), a.data, out.data, positions};
  if (UsesTiles(call.rows)) return SortTiles(args, call);
  // Of several rows together, one is not so long.
  if (slices.size > MaxNarrowSort(args)) return SortParts<uint64_t, uint64_t>(args, call);
  if (ItemSize(a.dtype) == 8) return SortParts<uint64_t, uint32_t>(args, call);
  return SortParts<uint32_t, uint32_t>(args, call);
}

absl::Status RunSort(const KernelArgs& args) { return Run(args, false); }
absl::Status RunArgSort(const KernelArgs& args) { return Run(args, true); }

}  // namespace

void RegisterSorting(KernelTable& table) {
  table.Set("sort", RunSort);
  table.Set("argsort", RunArgSort);
}

}  // namespace chx::server::cuda
