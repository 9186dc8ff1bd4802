// The kernel of nonzero_positions, in ops/defs/sorting.cc. One launch counts the non-zero elements
// of each chunk, the counts are scanned, and another launch writes the positions.
#include <algorithm>

#include "ops/error.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/kernels/sorting_scan.h"
#include "server/cuda/loops/copy.h"
#include "server/cuda/loops/elementwise.h"
#include "server/cuda/loops/warp_scan.h"
#include "server/kernels/types.h"

namespace chx::server::cuda {
namespace {

struct NonzeroBody {
  using Acc = int64_t;
  static constexpr int kParts = 4;
  static constexpr int kPack = 8;
  static constexpr int64_t kStep = int64_t{kParts} * kWarp * kPack;
  static constexpr int64_t kChunk = 4 * kStep;
  struct Lane {
    uint32_t marks[kParts];  // a bit for each element
    int64_t totals[kParts];
  };
  const kernels::Bool* mask;
  int64_t size;
  int64_t* counts;  // of the chunks; then of all up to and including each
  int64_t* out;     // null: only counts
  int64_t limit;    // of positions
  bool packed;      // the mask is aligned to packs

  CHX_HD static int64_t Combine(int64_t earlier, int64_t later) { return earlier + later; }
  CHX_HD int64_t Steps(int64_t chunk) const {
    const int64_t left = size - chunk * kChunk;
    return ((left < kChunk ? left : kChunk) + kStep - 1) / kStep;
  }
  CHX_HD int64_t Before(int64_t chunk) const {
    return out == nullptr || chunk == 0 ? 0 : counts[chunk - 1];
  }
  CHX_HD static int64_t First(int64_t chunk, int64_t step, int part, int lane) {
    return chunk * kChunk + step * kStep + (int64_t{part} * kWarp + lane) * kPack;
  }
  CHX_HD Lane Load(int64_t chunk, int64_t step, int lane) const {
    Lane kept;
    CHX_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t first = First(chunk, step, part, lane);
      Pack<kernels::Bool, kPack> pack;
      if (packed && size - first >= kPack) {
        pack = *reinterpret_cast<const Pack<kernels::Bool, kPack>*>(mask + first);
      } else {
        CHX_UNROLL
        for (int j = 0; j < kPack; ++j) {
          pack.elements[j] = first + j < size ? mask[first + j] : kernels::Bool(false);
        }
      }
      kept.marks[part] = 0;
      kept.totals[part] = 0;
      CHX_UNROLL
      for (int j = 0; j < kPack; ++j) {
        const uint32_t mark = static_cast<bool>(pack.elements[j]) ? 1 : 0;
        kept.marks[part] |= mark << j;
        kept.totals[part] += mark;
      }
    }
    return kept;
  }
  CHX_HD void Finish(int64_t chunk, int64_t step, int lane, const Lane& kept,
                     const int64_t (&before)[kParts]) const {
    if (out == nullptr) return;
    CHX_UNROLL
    for (int part = 0; part < kParts; ++part) {
      const int64_t first = First(chunk, step, part, lane);
      int64_t place = before[part];
      for (int j = 0; j < kPack; ++j) {
        if ((kept.marks[part] >> j & 1) == 0) continue;
        if (place < limit) out[place] = first + j;
        ++place;
      }
    }
  }
  CHX_HD void End(int64_t chunk, int64_t total) const {
    if (out == nullptr) counts[chunk] = total;
  }
};

absl::Status RunNonzeroPositions(const KernelArgs& args) {
  const KernelTensor& out = args.out(0);
  const int64_t size = args.in(0).size();
  int64_t count = 0;
  if (size > 0) {
    CHX_ASSIGN_OR_RETURN(const KernelTensor a, Contiguous(args, args.in(0)));
    const int64_t chunks = (size + NonzeroBody::kChunk - 1) / NonzeroBody::kChunk;
    NonzeroBody body;
    body.mask = reinterpret_cast<const kernels::Bool*>(a.data);
    body.size = size;
    CHX_ASSIGN_OR_RETURN(body.counts, NewScratch<int64_t>(args, chunks));
    body.out = nullptr;
    body.limit = out.size();
    body.packed = reinterpret_cast<uintptr_t>(a.data) % NonzeroBody::kPack == 0;
    CHX_RETURN_IF_ERROR(ForEachWarp(args, chunks, body, NonzeroBody::kChunk));
    CHX_RETURN_IF_ERROR(ScanSums(args, chunks, body.counts));
    body.out = reinterpret_cast<int64_t*>(out.data);
    if (out.size() > 0) {
      CHX_RETURN_IF_ERROR(ForEachWarp(args, chunks, body, NonzeroBody::kChunk));
    }
    CHX_RETURN_IF_ERROR(args.stream.CopyOut(&count, body.counts + chunks - 1, sizeof(count)));
  }
  if (count == out.size()) return absl::OkStatus();
  return ValueError("[nonzero_positions] expects the number of non-zero elements, ", count,
                    ", got ", out.size());
}

}  // namespace

void RegisterSortingNonzero(KernelTable& table) {
  table.Set("nonzero_positions", RunNonzeroPositions);
}

}  // namespace chx::server::cuda
