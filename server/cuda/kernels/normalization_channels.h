// The bodies of batch normalization's kernels.
#ifndef CHX_SERVER_CUDA_KERNELS_NORMALIZATION_CHANNELS_H_
#define CHX_SERVER_CUDA_KERNELS_NORMALIZATION_CHANNELS_H_

#include <cstdint>

#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/launch.h"
#include "server/cuda/loops/rows.h"
#include "server/kernels/math.h"
#include "server/kernels/norm_layout.h"

namespace chx::server::cuda {

// An array as (outer, channels, inner), in items of neighbours along the last dimension.
template <int kItem>
class ChannelLayout {
 public:
  static constexpr int kPack = kItem;

  explicit ChannelLayout(const kernels::NormLayout& layout)
      : outer_(layout.outer),
        row_(layout.inner / kItem, layout.outer * layout.channels * layout.inner / kItem),
        channels_(layout.channels, layout.outer * layout.channels) {}

  // Of a channel, and of all.
  CHX_HD int64_t items() const { return outer_ * row_.divisor(); }
  CHX_HD int64_t size() const { return items() * channels_.divisor(); }
  // The first element of a channel's item.
  CHX_HD int64_t Position(int64_t channel, int64_t item) const {
    const int64_t outer = row_.Quotient(item);
    const int64_t inner = item - outer * row_.divisor();
    return ((outer * channels_.divisor() + channel) * row_.divisor() + inner) * kItem;
  }
  // Of item `item` of all.
  CHX_HD int64_t ChannelOf(int64_t item) const {
    const int64_t row = row_.Quotient(item);
    return row - channels_.Quotient(row) * channels_.divisor();
  }

 private:
  int64_t outer_;
  Divider row_;
  Divider channels_;
};

// Of some elements: their number, their mean, and the sum of the squares of their distances from
// it (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979).
template <typename C>
struct Moments {
  C count;
  C mean;
  C squares;

  CHX_HD static Moments Combine(const Moments& a, const Moments& b) {
    if (a.count == C(0)) return b;
    if (b.count == C(0)) return a;
    const C count = a.count + b.count;
    const C share = b.count / count;
    const C distance = b.mean - a.mean;
    return {count, a.mean + distance * share,
            a.squares + b.squares + distance * distance * (a.count * share)};
  }
};
// With each element's gradient: their sum, and that of their products with the elements' distances
// from the mean.
template <typename C>
struct GradMoments {
  Moments<C> x;
  C slopes;
  C products;

  CHX_HD static GradMoments Combine(const GradMoments& a, const GradMoments& b) {
    if (a.x.count == C(0)) return b;
    if (b.x.count == C(0)) return a;
    const Moments<C> x = Moments<C>::Combine(a.x, b.x);
    return {
        x, a.slopes + b.slopes,
        a.products + b.products + a.slopes * (a.x.mean - x.mean) + b.slopes * (b.x.mean - x.mean)};
  }
};

// The moments of a thread's elements, by their distances from its first one, which is as near to
// the mean as others are.
template <typename C>
struct Distances {
  C first;
  C count = C(0);
  C sum = C(0);
  C squares = C(0);

  CHX_HD explicit Distances(C x) : first(x) {}

  // An element's, which is added. Whoever calls this counts.
  CHX_HD C Add(C x) {
    const C distance = x - first;
    sum += distance;
    squares += distance * distance;
    return distance;
  }
  CHX_HD C mean() const { return sum / count; }
  CHX_HD Moments<C> OfElements() const { return {count, first + mean(), squares - sum * mean()}; }
};

// A source's Gather(channel, item, end, step): the accumulator of items item, item + step, ...
// below `end`.

template <typename T, typename Layout>
struct MomentsSource {
  using C = kernels::Compute<T>;
  using Acc = Moments<C>;
  using Items = Pack<T, Layout::kPack>;

  Layout layout;
  const T* x;

  CHX_HD Acc Gather(int64_t channel, int64_t item, int64_t end, int64_t step) const {
    if (item >= end) return Acc{};
    Distances<C> distances(kernels::Load(x[layout.Position(channel, item)]));
    const auto add = [&](const Items& items) {
      CHX_UNROLL
      for (int j = 0; j < Layout::kPack; ++j) distances.Add(kernels::Load(items.elements[j]));
      distances.count += C(Layout::kPack);
    };
    // Four at a time, whose loads overlap.
    for (; item + 3 * step < end; item += 4 * step) {
      Items next[4];
      CHX_UNROLL
      for (int j = 0; j < 4; ++j) next[j] = At(channel, item + j * step);
      CHX_UNROLL
      for (int j = 0; j < 4; ++j) add(next[j]);
    }
    for (; item < end; item += step) add(At(channel, item));
    return distances.OfElements();
  }

 private:
  CHX_HD const Items& At(int64_t channel, int64_t item) const {
    return *reinterpret_cast<const Items*>(x + layout.Position(channel, item));
  }
};

template <typename T, typename Layout>
struct GradSource {
  using C = kernels::Compute<T>;
  using Acc = GradMoments<C>;
  using Items = Pack<T, Layout::kPack>;

  Layout layout;
  const T* x;
  const T* gy;

  CHX_HD Acc Gather(int64_t channel, int64_t item, int64_t end, int64_t step) const {
    Acc acc{};
    if (item >= end) return acc;
    Distances<C> distances(kernels::Load(x[layout.Position(channel, item)]));
    C products(0);
    const auto add = [&](const Items& items, const Items& slopes) {
      CHX_UNROLL
      for (int j = 0; j < Layout::kPack; ++j) {
        const C slope = kernels::Load(slopes.elements[j]);
        acc.slopes += slope;
        products += slope * distances.Add(kernels::Load(items.elements[j]));
      }
      distances.count += C(Layout::kPack);
    };
    for (; item + step < end; item += 2 * step) {
      Items next[2];
      Items slopes[2];
      CHX_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int64_t at = layout.Position(channel, item + j * step);
        next[j] = At(x, at);
        slopes[j] = At(gy, at);
      }
      CHX_UNROLL
      for (int j = 0; j < 2; ++j) add(next[j], slopes[j]);
    }
    for (; item < end; item += step) {
      const int64_t at = layout.Position(channel, item);
      add(At(x, at), At(gy, at));
    }
    acc.x = distances.OfElements();
    acc.products = products - acc.slopes * distances.mean();
    return acc;
  }

 private:
  CHX_HD static const Items& At(const T* array, int64_t at) {
    return *reinterpret_cast<const Items*>(array + at);
  }
};

// Accumulators (parts, channels).
template <typename A>
struct PartSource {
  using Acc = A;
  const Acc* accs;
  int64_t channels;

  CHX_HD Acc Gather(int64_t channel, int64_t item, int64_t end, int64_t step) const {
    Acc acc{};
    for (; item < end; item += step) acc = Acc::Combine(acc, accs[item * channels + channel]);
    return acc;
  }
};
template <typename Acc>
struct PartSink {
  Acc* accs;
  int64_t channels;

  CHX_HD void Store(int64_t part, int64_t channel, const Acc& acc) const {
    accs[part * channels + channel] = acc;
  }
};

// y = (x - mean) * scale + shift.
template <typename C>
struct Normalization {
  C mean;
  C scale;
  C shift;
};

template <typename C>
struct MomentsSink {
  const C* gamma;
  const C* beta;
  Normalization<C>* coefficients;
  C eps;
  C* mean;
  C* variance;
  bool update;
  C decay;  // of what is there, to which the shares of these moments are added
  C share;
  C variance_share;

  CHX_HD void Store(int64_t /*part*/, int64_t channel, const Moments<C>& acc) const {
    const C of_batch = acc.squares / acc.count;
    coefficients[channel] = {acc.mean, gamma[channel] / kernels::Sqrt(of_batch + eps),
                             beta[channel]};
    if (update) {
      mean[channel] = decay * mean[channel] + share * acc.mean;
      variance[channel] = decay * variance[channel] + variance_share * of_batch;
    } else {
      mean[channel] = acc.mean;
      variance[channel] = of_batch;
    }
  }
};

// gx = gy * scale + (x - mean) * slope + shift.
template <typename C>
struct GradCoefficients {
  C mean;
  C scale;
  C slope;
  C shift;
};

template <typename C>
struct GradSink {
  const C* gamma;
  GradCoefficients<C>* coefficients;
  C eps;
  C count;
  C* ggamma;
  C* gbeta;

  CHX_HD void Store(int64_t /*part*/, int64_t channel, const GradMoments<C>& acc) const {
    const C inverse = C(1) / kernels::Sqrt(acc.x.squares / acc.x.count + eps);
    const C of_gamma = acc.products * inverse;
    const C scale = gamma[channel] * inverse;
    coefficients[channel] = {acc.x.mean, scale, -scale * inverse * (of_gamma / count),
                             -scale * (acc.slopes / count)};
    ggamma[channel] = of_gamma;
    gbeta[channel] = acc.slopes;
  }
};

// A group of threads gathers each part of each channel.
template <typename Source, typename Sink>
struct ChannelBody {
  using Acc = typename Source::Acc;

  ThreadGroups groups;
  Source source;
  Sink sink;
  int64_t channels;
  int64_t items;  // of a channel
  int64_t part_size;
  int64_t blocks;  // of each part

  CHX_HD static Acc Combine(const Acc& a, const Acc& b) { return Acc::Combine(a, b); }
  CHX_HD int64_t ChannelOf(int64_t block, int thread) const {
    return block % blocks * groups.count() + groups.GroupOf(thread);
  }
  CHX_HD Acc Gather(int64_t block, int thread) const {
    const int64_t channel = ChannelOf(block, thread);
    if (channel >= channels) return Acc{};
    const int64_t begin = block / blocks * part_size;
    const int64_t end = items - begin < part_size ? items : begin + part_size;
    return source.Gather(channel, begin + groups.RankOf(thread), end, groups.size());
  }
  CHX_HD void Finish(int64_t block, int thread, const Acc& acc) const {
    const int64_t channel = ChannelOf(block, thread);
    if (groups.RankOf(thread) != 0 || channel >= channels) return;
    sink.Store(block / blocks, channel, acc);
  }
};

// Coefficients as they were stored, or by moments that were given.
template <typename C>
struct Given {
  const Normalization<C>* coefficients;

  CHX_HD Normalization<C> At(int64_t channel) const { return coefficients[channel]; }
};
template <typename C>
struct Fixed {
  const C* gamma;
  const C* beta;
  const C* mean;
  const C* variance;
  C eps;

  CHX_HD Normalization<C> At(int64_t channel) const {
    return {mean[channel], gamma[channel] / kernels::Sqrt(variance[channel] + eps), beta[channel]};
  }
};

// These go through all items, from the last one to the first.
template <typename T, typename Layout, typename Coefficients>
struct NormalizeBody {
  using Items = Pack<T, Layout::kPack>;

  Layout layout;
  const T* x;
  Coefficients coefficients;
  T* y;

  CHX_HD void operator()(int64_t i) const {
    const int64_t item = layout.size() - 1 - i;
    const auto of = coefficients.At(layout.ChannelOf(item));
    Items items = reinterpret_cast<const Items*>(x)[item];
    CHX_UNROLL
    for (int j = 0; j < Layout::kPack; ++j) {
      items.elements[j] =
          kernels::Store<T>((kernels::Load(items.elements[j]) - of.mean) * of.scale + of.shift);
    }
    StorePack(items, y + item * Layout::kPack);
  }
};

template <typename T, typename Layout>
struct GradBody {
  using C = kernels::Compute<T>;
  using Items = Pack<T, Layout::kPack>;

  Layout layout;
  const T* x;
  const T* gy;
  const GradCoefficients<C>* coefficients;
  T* gx;

  CHX_HD void operator()(int64_t i) const {
    const int64_t item = layout.size() - 1 - i;
    const GradCoefficients<C> of = coefficients[layout.ChannelOf(item)];
    Items items = reinterpret_cast<const Items*>(x)[item];
    const Items slopes = reinterpret_cast<const Items*>(gy)[item];
    CHX_UNROLL
    for (int j = 0; j < Layout::kPack; ++j) {
      const C distance = kernels::Load(items.elements[j]) - of.mean;
      items.elements[j] = kernels::Store<T>(kernels::Load(slopes.elements[j]) * of.scale +
                                            (distance * of.slope + of.shift));
    }
    StorePack(items, gx + item * Layout::kPack);
  }
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_KERNELS_NORMALIZATION_CHANNELS_H_
