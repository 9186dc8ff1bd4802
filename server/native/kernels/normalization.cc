// Kernels of ops/defs/normalization.cc. What they decline, the operators' compositions compute.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/norm_layout.h"
#include "server/native/kernels/register_kernels.h"
#include "server/native/loops/contiguous.h"
#include "server/native/loops/loops.h"
#include "server/native/loops/nest.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"

namespace chx::server::native {
namespace {

using kernels::MakeNormLayout;
using kernels::NormLayout;

constexpr int64_t kChannelsAtOnce = 128;  // channels at a time, where they are neighbours

// The moments, or the sums of gradients, of some neighbouring channels.
template <typename T>
class Channels {
 public:
  // Channels [first, first + n): one if they are not neighbours in memory.
  Channels(const NormLayout& layout, int64_t first, int64_t n)
      : layout_(layout),
        loops_(Loops().norm[static_cast<int>(kernels::kDtypeOf<T>)]),
        columns_(layout.inner == 1),
        first_(first),
        n_(n) {}

  // Computes variances, and leaves the mean in mean().
  void Moments(const T* x, double* variance) {
    FindMean(x);
    std::fill_n(variance, n_, 0.0);
    ForRows([&](int64_t at, const NormRows& rows) {
      loops_.square(columns_, x + at, rows, mean_, variance);
    });
    for (int64_t i = 0; i < n_; ++i) variance[i] /= layout_.count();
  }
  const T* mean() const { return mean_; }

  void Apply(const T* x, const double* variance, double eps, const T* gamma, const T* beta, T* y) {
    T scale[kChannelsAtOnce];
    for (int64_t i = 0; i < n_; ++i) {
      scale[i] = static_cast<T>(static_cast<double>(gamma[i]) / std::sqrt(variance[i] + eps));
    }
    ForRows([&](int64_t at, const NormRows& rows) {
      loops_.apply(columns_, x + at, rows, mean_, scale, beta, y + at);
    });
  }

  void Gradient(const T* x, const T* gy, double eps, const T* gamma, T* gx, T* ggamma, T* gbeta) {
    FindMean(x);
    double squares[kChannelsAtOnce];
    double sums[kChannelsAtOnce];
    double products[kChannelsAtOnce];
    std::fill_n(squares, n_, 0.0);
    std::fill_n(sums, n_, 0.0);
    std::fill_n(products, n_, 0.0);
    ForRows([&](int64_t at, const NormRows& rows) {
      loops_.grad_sums(columns_, x + at, gy + at, rows, mean_, squares, sums, products);
    });
    T scale[kChannelsAtOnce];
    T slope[kChannelsAtOnce];
    T shift[kChannelsAtOnce];
    const double share = 1 / layout_.count();
    for (int64_t i = 0; i < n_; ++i) {
      const double inverse = 1 / std::sqrt(squares[i] * share + eps);
      const double factor = inverse * static_cast<double>(gamma[i]);
      ggamma[i] = static_cast<T>(products[i] * inverse);
      gbeta[i] = static_cast<T>(sums[i]);
      scale[i] = static_cast<T>(factor);
      slope[i] = static_cast<T>(-factor * inverse * inverse * products[i] * share);
      shift[i] = static_cast<T>(-factor * sums[i] * share);
    }
    ForRows([&](int64_t at, const NormRows& rows) {
      loops_.grad(columns_, x + at, gy + at, rows, mean_, scale, slope, shift, gx + at);
    });
  }

 private:
  void FindMean(const T* x) {
    double sums[kChannelsAtOnce];
    std::fill_n(sums, n_, 0.0);
    ForRows([&](int64_t at, const NormRows& rows) { loops_.sum(columns_, x + at, rows, sums); });
    for (int64_t i = 0; i < n_; ++i) mean_[i] = static_cast<T>(sums[i] / layout_.count());
  }

  // run(position, rows) for all dense rows of these channels: several short ones at a time, or
  // pieces of one.
  template <typename Run>
  void ForRows(Run&& run) const {
    const int64_t n = columns_ ? n_ : layout_.inner;
    const int64_t step = layout_.channels * layout_.inner;
    const int64_t most = std::max<int64_t>(1, kStopElements / std::max<int64_t>(1, n));
    StopWatch watch;
    for (int64_t o = 0; o < layout_.outer; o += most) {
      const int64_t count = std::min(most, layout_.outer - o);
      if (watch.After(count * n)) return;
      const int64_t at = o * step + first_ * layout_.inner;
      InPieces(n, [&](int64_t begin, int64_t end) {
        run(at + begin, NormRows{count, step, end - begin});
      });
    }
  }

  const NormLayout& layout_;
  const NormLoops& loops_;
  const bool columns_;
  const int64_t first_;
  const int64_t n_;
  T mean_[kChannelsAtOnce];
};

// Calls run(tag, layout, inputs) with dense inputs of T. Declines other axes, and operands that do
// not all have the same dtype of 32 bits or more.
template <typename Fn>
absl::Status Visit(const KernelArgs& args, const AttrValue& axis, Fn&& run) {
  const KernelTensor& x = args.in(0);
  uint32_t axes = 1;
  if (axis.has_value()) {
    CHX_ASSIGN_OR_RETURN(axes, rules::NormalizeAxes(args.op.name, axis, x.ndim()));
  }
  NormLayout layout;
  bool mine = (x.dtype == Dtype::kFloat32 || x.dtype == Dtype::kFloat64) &&
              MakeNormLayout(x.shape, axes, &layout);
  for (const KernelTensor& in : args.inputs) mine = mine && in.dtype == x.dtype;
  if (!mine) return absl::UnimplementedError("");
  if (layout.channels == 0) return absl::OkStatus();
  std::vector<KernelTensor> dense;
  for (const KernelTensor& in : args.inputs) {
    CHX_ASSIGN_OR_RETURN(KernelTensor tensor, Contiguous(args, in, in.dtype));
    dense.push_back(std::move(tensor));
  }
  const auto all = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    std::vector<const T*> in;
    in.reserve(dense.size());
    for (const KernelTensor& tensor : dense) in.push_back(reinterpret_cast<const T*>(tensor.data));
    run(tag, layout, in.data());
  };
  if (x.dtype == Dtype::kFloat64) {
    all(kernels::TypeTag<double>());
  } else {
    all(kernels::TypeTag<float>());
  }
  return absl::OkStatus();
}

// Calls run(channels, inputs, first, n) for all channels, on all threads.
template <typename Fn>
absl::Status ForChannels(const KernelArgs& args, const AttrValue& axis, Fn&& run) {
  return Visit(args, axis, [&](auto tag, const NormLayout& layout, const auto* in) {
    using T = typename decltype(tag)::Type;
    const int64_t step = layout.inner == 1 ? kChannelsAtOnce : 1;
    const int64_t tasks = (layout.channels + step - 1) / step;
    const double work = 1 + layout.count() * static_cast<double>(step);
    const auto grain = static_cast<int64_t>(std::max(1.0, kGrain / work));
    PoolOf(args).ParallelFor(tasks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t first = task * step;
        const int64_t n = std::min(step, layout.channels - first);
        run(Channels<T>(layout, first, n), in, first, n);
      }
    });
  });
}

template <typename T>
T* OutOf(const KernelArgs& args, int i, const T*) {
  return reinterpret_cast<T*>(args.out(i).data);
}

// x, gamma, beta; eps, axis.
absl::Status RunForward(const KernelArgs& args) {
  const double eps = args.attrs[0].AsFloat();
  return ForChannels(args, args.attrs[1], [&](auto channels, auto in, int64_t first, int64_t n) {
    double variance[kChannelsAtOnce];
    channels.Moments(in[0], variance);
    channels.Apply(in[0], variance, eps, in[1] + first, in[2] + first, OutOf(args, 0, in[0]));
    std::copy_n(channels.mean(), n, OutOf(args, 1, in[0]) + first);
    std::copy_n(variance, n, OutOf(args, 2, in[0]) + first);
  });
}

// x, gamma, gy; eps, axis.
absl::Status RunNormGrad(const KernelArgs& args) {
  const double eps = args.attrs[0].AsFloat();
  return ForChannels(args, args.attrs[1], [&](auto channels, auto in, int64_t first, int64_t n) {
    channels.Gradient(in[0], in[2], eps, in[1] + first, OutOf(args, 0, in[0]),
                      OutOf(args, 1, in[0]) + first, OutOf(args, 2, in[0]) + first);
  });
}

// x, gamma, beta, mean, var; eps, axis. There are no sums: rows are visited in memory order.
absl::Status RunFixed(const KernelArgs& args) {
  const double eps = args.attrs[0].AsFloat();
  return Visit(args, args.attrs[1], [&](auto tag, const NormLayout& layout, const auto* in) {
    using T = typename decltype(tag)::Type;
    std::vector<T> scale(layout.channels);
    StopWatch watch;
    for (int64_t i = 0; i < layout.channels && !watch.After(1); ++i) {
      const double deviation = std::sqrt(static_cast<double>(in[4][i]) + eps);
      scale[i] = static_cast<T>(static_cast<double>(in[1][i]) / deviation);
    }
    const bool columns = layout.inner == 1;
    const int64_t n = columns ? layout.channels : layout.inner;
    const int64_t rows = layout.outer * layout.channels * layout.inner / std::max<int64_t>(1, n);
    const NormLoops& loops = Loops().norm[static_cast<int>(kernels::kDtypeOf<T>)];
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, n));
    PoolOf(args).ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t c = columns ? 0 : row % layout.channels;
        InPieces(n, [&](int64_t first, int64_t last) {
          const int64_t at = row * n + first;
          const int64_t channel = columns ? first : c;
          loops.apply(columns, in[0] + at, {1, n, last - first}, in[3] + channel,
                      scale.data() + channel, in[2] + channel, OutOf(args, 0, in[0]) + at);
        });
      }
    });
  });
}

}  // namespace

void RegisterNormalization(KernelTable& table) {
  table.Set("batch_norm_forward", RunForward);
  table.Set("batch_norm_grad", RunNormGrad);
  table.Set("fixed_batch_norm", RunFixed);
}

}  // namespace chx::server::native
