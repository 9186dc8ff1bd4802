// The gradients of weight and bias: sums over columns or channels, in parts that are added up in a
// fixed order.
#include <algorithm>

#include "ops/error.h"
#include "server/cuda/kernels/normalization_rows.h"
#include "server/cuda/loops/copy.h"
#include "server/kernels/dispatch.h"

namespace chx::server::cuda {
namespace {

template <typename C>
struct Sums {
  C weight;  // of gy times the normalized x
  C bias;    // of gy

  CHX_HD static Sums Add(const Sums& a, const Sums& b) {
    return {a.weight + b.weight, a.bias + b.bias};
  }
};

template <typename T>
CHX_HD Sums<kernels::Compute<T>> Term(const T& x, const T& gy,
                                      const RowMoments<kernels::Compute<T>>& moments) {
  const kernels::Compute<T> slope = kernels::Load(gy);
  return {slope * ((kernels::Load(x) - moments.mean) * moments.inverse), slope};
}

// What is summed over rows of n columns: terms, or sums (rows, 2, n).
template <typename T>
struct Terms {
  using C = kernels::Compute<T>;
  const T* x;
  const T* gy;
  const RowMoments<C>* moments;
  int64_t n;

  CHX_HD Sums<C> At(int64_t row, int64_t column) const {
    const int64_t at = row * n + column;
    return Term(x[at], gy[at], moments[row]);
  }
};
template <typename Compute>
struct Parts {
  using C = Compute;
  const C* sums;
  int64_t n;

  CHX_HD Sums<C> At(int64_t row, int64_t column) const {
    return {sums[2 * row * n + column], sums[(2 * row + 1) * n + column]};
  }
};

template <typename Source>
struct ColumnBody {
  using C = typename Source::C;
  using Acc = Sums<C>;

  ThreadGroups groups;  // of one column each
  Source source;
  int64_t rows;
  int64_t blocks;     // of each part
  int64_t part_size;  // rows
  C* weight;          // of the first part
  C* bias;
  int64_t stride;  // from one part's to the next one's

  CHX_HD static Acc Combine(const Acc& a, const Acc& b) { return Acc::Add(a, b); }
  CHX_HD int64_t ColumnOf(int64_t block, int thread) const {
    return block % blocks * groups.count() + groups.GroupOf(thread);
  }
  CHX_HD Acc Gather(int64_t block, int thread) const {
    Acc acc{C(0), C(0)};
    const int64_t column = ColumnOf(block, thread);
    if (column >= source.n) return acc;
    const int64_t begin = block / blocks * part_size;
    const int64_t end = rows - begin < part_size ? rows : begin + part_size;
    const int64_t step = groups.size();
    int64_t row = begin + groups.RankOf(thread);
    // Four at a time, whose loads overlap.
    for (; row + 3 * step < end; row += 4 * step) {
      Acc next[4];
      CHX_UNROLL
      for (int j = 0; j < 4; ++j) next[j] = source.At(row + j * step, column);
      CHX_UNROLL
      for (int j = 0; j < 4; ++j) acc = Acc::Add(acc, next[j]);
    }
    for (; row < end; row += step) acc = Acc::Add(acc, source.At(row, column));
    return acc;
  }
  CHX_HD void Finish(int64_t block, int thread, const Acc& acc) const {
    const int64_t column = ColumnOf(block, thread);
    if (groups.RankOf(thread) != 0 || column >= source.n) return;
    const int64_t at = block / blocks * stride + column;
    weight[at] = acc.weight;
    bias[at] = acc.bias;
  }
};

// In `parts` of the rows, of which there is at least one in each.
template <typename Source>
absl::Status SumParts(const KernelArgs& args, const Source& source, int64_t rows, int64_t parts,
                      typename Source::C* weight, typename Source::C* bias) {
  ColumnBody<Source> body{};
  const int64_t columns = std::min<int64_t>(kWarp, PowerOfTwoAtLeast(source.n));
  body.groups = ThreadGroups(kThreads / static_cast<int>(columns), true);
  body.source = source;
  body.rows = rows;
  body.blocks = (source.n + columns - 1) / columns;
  body.part_size = (rows + parts - 1) / parts;
  body.weight = weight;
  body.bias = bias;
  body.stride = 2 * source.n;
  return ForEachGroup(args, (rows + body.part_size - 1) / body.part_size * body.blocks, body);
}

// Into outputs 1 and 2.
template <typename Source>
absl::Status SumColumns(const KernelArgs& args, const Source& source, int64_t rows) {
  using C = typename Source::C;
  // Enough blocks for any GPU, with 128 rows or more in each part, and not too many parts.
  constexpr int64_t kBlocks = 4096;
  const int64_t blocks = (source.n + kWarp - 1) / kWarp;
  const int64_t most =
      std::max<int64_t>(1, std::min(std::min<int64_t>(512, kBlocks / blocks), rows / 128));
  const int64_t part_size = (rows + most - 1) / most;
  const int64_t parts = (rows + part_size - 1) / part_size;
  C* const weight = reinterpret_cast<C*>(args.out(1).data);
  C* const bias = reinterpret_cast<C*>(args.out(2).data);
  if (parts == 1) return SumParts(args, source, rows, 1, weight, bias);
  CHX_ASSIGN_OR_RETURN(C* const sums, NewScratch<C>(args, parts * 2 * source.n));
  CHX_RETURN_IF_ERROR(SumParts(args, source, rows, parts, sums, sums + source.n));
  return SumParts(args, Parts<C>{sums, source.n}, parts, 1, weight, bias);
}

// Of the elements of each channel of each sample, as (samples, 2, channels).
template <typename T, typename Loop>
struct ChannelBody {
  using C = kernels::Compute<T>;
  using Acc = Sums<C>;
  struct Held {};

  Loop loop;
  const T* x;
  const T* gy;
  const RowMoments<C>* moments;
  int64_t channels;        // of a sample
  int64_t group_channels;  // of a group, which has moments
  C* sums;

  CHX_HD static Acc Combine(const Acc& a, const Acc& b) { return Acc::Add(a, b); }
  CHX_HD Acc Gather(int64_t row, int rank, Held*) const {
    Acc acc{C(0), C(0)};
    const RowMoments<C> of_row = moments[row / group_channels];
    for (int begin = 0; begin < loop.n(); begin = loop.Next(begin)) {
      typename Loop::template Items<C> in;
      typename Loop::template Items<C> grad;
      loop.Load(x + row * loop.n(), begin, rank, &in);
      loop.Load(gy + row * loop.n(), begin, rank, &grad);
      Acc step{C(0), C(0)};
      loop.ForPacks(begin, rank, [&](int i, int) {
        CHX_UNROLL
        for (int j = i; j < i + Loop::kPack; ++j) {
          step.weight += grad.at[j] * ((in.at[j] - of_row.mean) * of_row.inverse);
          step.bias += grad.at[j];
        }
      });
      acc = Acc::Add(acc, step);
    }
    return acc;
  }
  CHX_HD void Finish(int64_t row, int rank, Held*, const Acc& acc) const {
    if (rank != 0) return;
    C* const to = sums + row / channels * 2 * channels + row % channels;
    to[0] = acc.weight;
    to[channels] = acc.bias;
  }
};

template <typename T>
absl::Status SumChannels(const KernelArgs& args, const NormRows& rows, const Terms<T>& terms) {
  using C = kernels::Compute<T>;
  const int64_t samples = rows.rows / rows.groups;
  const int64_t channels = rows.groups * rows.channels;
  CHX_ASSIGN_OR_RETURN(C* const sums, NewScratch<C>(args, samples * 2 * channels));
  CHX_RETURN_IF_ERROR((VisitRowLoop<T, 16>(rows.size, {terms.x, terms.gy}, [&](auto loop) {
    return ForEachRow(args, samples * channels,
                      ChannelBody<T, decltype(loop)>{loop, terms.x, terms.gy, terms.moments,
                                                     channels, rows.channels, sums});
  })));
  return SumColumns(args, Parts<C>{sums, channels}, samples);
}

}  // namespace

absl::Status SumAffine(const KernelArgs& args, const NormRows& rows, const KernelTensor& x,
                       const KernelTensor& gy, const void* moments) {
  return kernels::VisitFloat(x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Terms<T> terms{reinterpret_cast<const T*>(x.data), reinterpret_cast<const T*>(gy.data),
                         static_cast<const RowMoments<kernels::Compute<T>>*>(moments), rows.n};
    if (rows.groups > 0) return SumChannels(args, rows, terms);
    return SumColumns(args, terms, rows.rows);
  });
}

}  // namespace chx::server::cuda
