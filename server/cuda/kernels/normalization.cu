// Kernels of ops/defs/normalization.cc. What they decline, the operators' compositions compute.
//
// The moments of each channel are gathered by a group of threads; where there are few channels, in
// parts, whose accumulators a second launch combines. There are no atomics, so results are the same
// in every run and on every GPU. A last launch goes through the elements once more, backwards: what
// was read last is still in the cache.
#include <algorithm>
#include <utility>

#include "ops/error.h"
#include "ops/inference_rules.h"
#include "server/cuda/kernels/normalization_channels.h"
#include "server/cuda/kernels/register_kernels.h"
#include "server/cuda/loops/copy.h"
#include "server/kernels/dispatch.h"

namespace chx::server::cuda {
namespace {

// How channels are divided among blocks and groups of threads.
struct Cut {
  ThreadGroups groups;
  int64_t blocks = 1;     // of each part
  int64_t parts = 1;      // of a channel's items
  int64_t part_size = 1;  // items
};

// `columns`: whether the same items of neighbouring channels are neighbours in memory.
Cut CutChannels(int64_t channels, int64_t items, bool columns) {
  constexpr int64_t kBlocks = 2048;  // that keep a large GPU busy
  constexpr int64_t kLoads = 4;      // of each thread, which overlap
  Cut cut;
  int64_t size = kThreads / std::min<int64_t>(kWarp, PowerOfTwoAtLeast(channels));
  if (!columns) {
    size = std::max(PowerOfTwoAtLeast((items + kLoads - 1) / kLoads),
                    std::min<int64_t>(kWarp, PowerOfTwoAtLeast(items)));
    size = std::min<int64_t>(size, kThreads);
  }
  cut.groups = ThreadGroups(static_cast<int>(size), columns);
  cut.blocks = (channels + cut.groups.count() - 1) / cut.groups.count();
  const int64_t most = std::max<int64_t>(1, items / (size * kLoads));
  const int64_t parts = std::max<int64_t>(1, std::min(kBlocks / cut.blocks, most));
  cut.part_size = (items + parts - 1) / parts;
  cut.parts = (items + cut.part_size - 1) / cut.part_size;
  return cut;
}

template <typename Source, typename Sink>
absl::Status Launch(const KernelArgs& args, const Cut& cut, int64_t channels, int64_t items,
                    const Source& source, const Sink& sink) {
  const ChannelBody<Source, Sink> body{cut.groups, source,        sink,      channels,
                                       items,      cut.part_size, cut.blocks};
  return ForEachGroup(args, cut.parts * cut.blocks, body);
}

// sink.Store(0, channel, accumulator of all of its items), for each channel.
template <typename Source, typename Sink>
absl::Status ForChannels(const KernelArgs& args, int64_t channels, int64_t items, bool columns,
                         const Source& source, const Sink& sink) {
  using Acc = typename Source::Acc;
  const Cut cut = CutChannels(channels, items, columns);
  if (cut.parts == 1) return Launch(args, cut, channels, items, source, sink);
  CHX_ASSIGN_OR_RETURN(Acc* const accs, NewScratch<Acc>(args, cut.parts * channels));
  CHX_RETURN_IF_ERROR(Launch(args, cut, channels, items, source, PartSink<Acc>{accs, channels}));
  Cut second = CutChannels(channels, cut.parts, true);
  second.parts = 1;
  second.part_size = cut.parts;
  return Launch(args, second, channels, cut.parts, PartSource<Acc>{accs, channels}, sink);
}

absl::Status Decline() { return absl::UnimplementedError(""); }

// A call for x, gamma, ... and the attributes eps, ..., axis.
struct Call {
  kernels::NormLayout layout;
  KernelTensor x;      // dense, of the dtype that was asked for
  KernelTensor gamma;  // dense, of `wide`, as all that there is one of for each channel
  Dtype wide = Dtype::kFloat32;
  double eps = 0;
};

// `wide`: the dtype that the composition computes in, which has to be that of x's moments.
absl::StatusOr<Call> Prepare(const KernelArgs& args, Dtype dtype, Dtype wide) {
  const KernelTensor& x = args.in(0);
  const AttrValue& axis = args.attrs.back();
  uint32_t axes = 1;
  if (axis.has_value()) {
    CHX_ASSIGN_OR_RETURN(axes, rules::NormalizeAxes(args.op.name, axis, x.ndim()));
  }
  Call call;
  if (wide != kernels::MomentsDtype(dtype) ||
      !kernels::MakeNormLayout(x.shape, axes, &call.layout) || x.size() == 0) {
    return Decline();
  }
  CHX_ASSIGN_OR_RETURN(call.x, Contiguous(args, x, dtype));
  CHX_ASSIGN_OR_RETURN(call.gamma, Contiguous(args, args.in(1), wide));
  call.wide = wide;
  call.eps = args.attrs[0].AsFloat();
  return call;
}

// Calls run(layout), by packs of 16 bytes where rows of inner elements begin with one; else by
// single elements.
template <typename T, typename Fn>
absl::Status VisitLayout(const kernels::NormLayout& layout,
                         std::initializer_list<const char*> arrays, Fn run) {
  constexpr int kPack = kRowPack<T>;
  const bool packs =
      layout.inner % kPack == 0 && std::all_of(arrays.begin(), arrays.end(), [](const char* p) {
        return reinterpret_cast<uintptr_t>(p) % 16 == 0;
      });
  if (packs) return run(ChannelLayout<kPack>(layout));
  return run(ChannelLayout<1>(layout));
}

template <typename T>
const T* Data(const KernelTensor& tensor) {
  return reinterpret_cast<const T*>(tensor.data);
}
template <typename T>
T* MutableData(const KernelTensor& tensor) {
  return reinterpret_cast<T*>(tensor.data);
}

// y, by the moments of the batch, which go to `mean` and `variance`: replaced, or moved towards
// them by 1 - decay.
absl::Status Normalize(const KernelArgs& args, const Call& call, const KernelTensor& mean,
                       const KernelTensor& variance, bool update, double decay) {
  CHX_ASSIGN_OR_RETURN(const KernelTensor beta, Contiguous(args, args.in(2), call.wide));
  const double count = call.layout.count();
  return kernels::VisitFloat(call.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = kernels::Compute<T>;
    const int64_t channels = call.layout.channels;
    const auto run = [&](const auto& layout) -> absl::Status {
      using Layout = std::decay_t<decltype(layout)>;
      CHX_ASSIGN_OR_RETURN(auto* const coefficients, NewScratch<Normalization<C>>(args, channels));
      MomentsSink<C> sink{Data<C>(call.gamma), Data<C>(beta), coefficients};
      sink.eps = static_cast<C>(call.eps);
      sink.mean = MutableData<C>(mean);
      sink.variance = MutableData<C>(variance);
      sink.update = update;
      sink.decay = static_cast<C>(decay);
      sink.share = static_cast<C>(1 - decay);
      // Running variances are unbiased estimates.
      sink.variance_share = static_cast<C>((1 - decay) * (count / (count > 2 ? count - 1 : 1)));
      const MomentsSource<T, Layout> source{layout, Data<T>(call.x)};
      CHX_RETURN_IF_ERROR(
          ForChannels(args, channels, layout.items(), call.layout.inner == 1, source, sink));
      return ForEach(
          args, layout.size(),
          NormalizeBody<T, Layout, Given<C>>{layout, Data<T>(call.x), Given<C>{coefficients},
                                             MutableData<T>(args.out(0))},
          Layout::kPack);
    };
    return VisitLayout<T>(call.layout, {call.x.data, args.out(0).data}, run);
  });
}

// x, gamma, beta; y, mean, variance.
absl::Status RunForward(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const Call call, Prepare(args, args.in(0).dtype, args.out(1).dtype));
  return Normalize(args, call, args.out(1), args.out(2), false, 0);
}

// The memory that a tensor's elements are in: [begin, end).
std::pair<const char*, const char*> Extent(const KernelTensor& tensor) {
  std::pair<const char*, const char*> extent(tensor.data, tensor.data + ItemSize(tensor.dtype));
  for (int i = 0; i < tensor.ndim(); ++i) {
    const int64_t last = (tensor.shape[i] - 1) * tensor.strides[i];
    (last < 0 ? extent.first : extent.second) += last;
  }
  return extent;
}

// Whether the running moments can be written where they are: dense, and apart from all that is
// read.
bool MayUpdate(const KernelArgs& args, Dtype wide) {
  for (int i = 3; i < 5; ++i) {
    const KernelTensor& running = args.in(i);
    if (running.dtype != wide || running.size() == 0 ||
        !kernels::IsContiguous(running.shape, running.strides, ItemSize(wide))) {
      return false;
    }
    for (int j = 0; j < i; ++j) {
      const auto [begin, end] = Extent(args.in(j));
      if (args.in(j).size() > 0 && begin < Extent(running).second && Extent(running).first < end) {
        return false;
      }
    }
  }
  return true;
}

Dtype WideDtype(const KernelArgs& args) {
  return PromoteTypes(PromoteTypes(args.in(0).dtype, args.in(1).dtype), Dtype::kFloat32);
}

// x, gamma, beta, running mean, running variance; y.
absl::Status RunTraining(const KernelArgs& args) {
  const Dtype wide = WideDtype(args);
  if (!MayUpdate(args, wide)) return Decline();
  CHX_ASSIGN_OR_RETURN(const Call call, Prepare(args, args.in(0).dtype, wide));
  return Normalize(args, call, args.in(3), args.in(4), true, args.attrs[1].AsFloat());
}

// x, gamma, gy; gx, ggamma, gbeta.
absl::Status RunGrad(const KernelArgs& args) {
  const Dtype wide = args.out(0).dtype;
  CHX_ASSIGN_OR_RETURN(const Call call, Prepare(args, wide, wide));
  CHX_ASSIGN_OR_RETURN(const KernelTensor gy, Contiguous(args, args.in(2), wide));
  return kernels::VisitFloat(wide, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = kernels::Compute<T>;
    const int64_t channels = call.layout.channels;
    const auto run = [&](const auto& layout) -> absl::Status {
      using Layout = std::decay_t<decltype(layout)>;
      CHX_ASSIGN_OR_RETURN(auto* const coefficients,
                           NewScratch<GradCoefficients<C>>(args, channels));
      GradSink<C> sink{Data<C>(call.gamma), coefficients};
      sink.eps = static_cast<C>(call.eps);
      sink.count = static_cast<C>(call.layout.count());
      sink.ggamma = MutableData<C>(args.out(1));
      sink.gbeta = MutableData<C>(args.out(2));
      const GradSource<T, Layout> source{layout, Data<T>(call.x), Data<T>(gy)};
      CHX_RETURN_IF_ERROR(
          ForChannels(args, channels, layout.items(), call.layout.inner == 1, source, sink));
      return ForEach(args, layout.size(),
                     GradBody<T, Layout>{layout, Data<T>(call.x), Data<T>(gy), coefficients,
                                         MutableData<T>(args.out(0))},
                     Layout::kPack);
    };
    return VisitLayout<T>(call.layout, {call.x.data, gy.data, args.out(0).data}, run);
  });
}

// x, gamma, beta, mean, var; y.
absl::Status RunFixed(const KernelArgs& args) {
  CHX_ASSIGN_OR_RETURN(const Call call, Prepare(args, args.in(0).dtype, WideDtype(args)));
  KernelTensor operands[3];
  for (int i = 0; i < 3; ++i) {
    CHX_ASSIGN_OR_RETURN(operands[i], Contiguous(args, args.in(2 + i), call.wide));
  }
  return kernels::VisitFloat(call.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using C = kernels::Compute<T>;
    const Fixed<C> coefficients{Data<C>(call.gamma), Data<C>(operands[0]), Data<C>(operands[1]),
                                Data<C>(operands[2]), static_cast<C>(call.eps)};
    const auto run = [&](const auto& layout) {
      using Layout = std::decay_t<decltype(layout)>;
      return ForEach(args, layout.size(),
                     NormalizeBody<T, Layout, Fixed<C>>{layout, Data<T>(call.x), coefficients,
                                                        MutableData<T>(args.out(0))},
                     Layout::kPack);
    };
    return VisitLayout<T>(call.layout, {call.x.data, args.out(0).data}, run);
  });
}

}  // namespace

void RegisterNormalization(KernelTable& table) {
  table.Set("batch_norm", RunTraining);
  table.Set("batch_norm_forward", RunForward);
  table.Set("batch_norm_grad", RunGrad);
  table.Set("fixed_batch_norm", RunFixed);
}

}  // namespace chx::server::cuda
