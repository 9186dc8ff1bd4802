#include "server/native/vendor/dnnl_convolution.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "ops/error.h"
#include "server/native/runtime/device.h"
#include "server/native/runtime/stops.h"
#include "server/native/vendor/dnnl_conv_plans.h"
#include "server/native/vendor/dnnl_primitive.h"
#include "server/native/vendor/task_slots.h"

namespace chx::server::native {
namespace {

using kernels::Windows;

constexpr int64_t kTaskWork = 4 << 20;  // multiplications of a task, at least
// Of single channels, which read and write an element for a few multiplications: what a task
// reorders stays in the cache.
constexpr int64_t kDepthwiseTaskWork = 256 << 10;
// Beyond this, some 25 ms, tasks are cut further, as none can be stopped. Where they cannot be cut
// so far the kernel that multiplies matrices takes over.
constexpr double kMaxTaskWork = 1 << 29;
constexpr double kMostTaskWork = 4 * kMaxTaskWork;
constexpr int64_t kMinTasks = 8;    // where there is work for them
constexpr int64_t kMinGroup = 128;  // features or channels, times the kernel
constexpr int64_t kBlock = 16;      // what oneDNN puts side by side
constexpr double kMaxElements = 1 << 28;
constexpr size_t kMaxScratchpad = 256 << 20;  // of a task: of its windows, for products of matrices
constexpr int64_t kMaxStep = 256;             // of a stride or along a kernel

class Run {
 public:
  Run(const KernelArgs& args, const ConvShape& shape, char* x, char* w, const char* bias, char* y)
      : args_(args),
        pool_(PoolOf(args)),
        shape_(shape),
        item_(shape.bfloat16 ? 2 : 4),
        x_(x),
        w_(w),
        bias_(bias),
        y_(y) {}

  absl::StatusOr<bool> operator()() {
    if (!Cut()) return false;
    const ConvPiece piece = PieceOf(step_);
    const int64_t rest = shape_.samples % step_;
    plan_ = PlanOf(shape_, piece, biased());
    last_ = rest == 0 || plan_ == nullptr ? plan_ : PlanOf(shape_, PieceOf(rest), biased());
    if (plan_ == nullptr || last_ == nullptr) return false;
    if (DnnlBytes(plan_->scratchpad) > kMaxScratchpad) return false;
    // The weights have one layout in both.
    if (!SameLayout(plan_->weight.inner, last_->weight.inner)) return false;
    CHX_RETURN_IF_ERROR(Allocate());
    const bool sums = shape_.kind == ConvKind::kWeight;
    if (!sums) ReorderWeights();
    TaskSlots slots(slots_, slot_bytes_, slot_count_);
    pool_.ParallelFor(chunks_ * groups_, 1, [&](int64_t begin, int64_t end) {
      char* const slot = slots.Take();
      for (int64_t task = begin; task < end; ++task) Task(task / groups_, task % groups_, slot);
      slots.Return(slot);
    });
    if (sums) {
      SumWeights();
      ReorderWeights();
    }
    if (failed_) return MemoryError("[", args_.op.name, "] out of memory: oneDNN has failed");
    return true;
  }

 private:
  bool biased() const { return bias_ != nullptr && shape_.kind == ConvKind::kForward; }
  ConvPiece PieceOf(int64_t samples) const {
    return {samples, splits_channels() ? shape_.channels / groups_ : shape_.channels,
            splits_features() ? shape_.features / groups_ : shape_.features,
            grouped() ? shape_.groups / groups_ : 1};
  }
  bool grouped() const { return shape_.groups > 1; }
  bool splits_channels() const { return grouped() || shape_.kind == ConvKind::kImage; }
  bool splits_features() const { return grouped() || shape_.kind != ConvKind::kImage; }

  // False if there is a task of too much work.
  bool Cut() {
    const Windows& w = shape_.windows;
    const auto weights = static_cast<double>(shape_.num_weights());
    const double work = weights * w.count;
    const double sample = static_cast<double>(shape_.channels) * w.image_size +
                          static_cast<double>(shape_.features) * w.count;
    // A chunk reads all weights, or makes its own sum of them: they should not be the most of it.
    const double worth = shape_.kind == ConvKind::kWeight ? 4 * weights : weights;
    const double task_work = shape_.is_depthwise() ? kDepthwiseTaskWork : kTaskWork;
    const double step = std::clamp(std::max(task_work / work, worth / sample), 1.0,
                                   std::max(1.0, kMaxElements / sample));
    step_ = step < shape_.samples ? static_cast<int64_t>(step) : shape_.samples;
    chunks_ = (shape_.samples + step_ - 1) / step_;
    const int64_t split = grouped()                         ? shape_.groups
                          : shape_.kind == ConvKind::kImage ? shape_.channels
                                                            : shape_.features;
    // Groups of a convolution have blocks of their own, unless they are single channels.
    const int64_t block = grouped() && !shape_.is_depthwise() ? 1 : kBlock;
    // Otherwise each group changes the layout of the other side again.
    while ((grouped() || (chunks_ * groups_ < kMinTasks &&
                          split / (2 * groups_) * w.kernel_size >= kMinGroup)) &&
           split % (2 * groups_ * block) == 0 && work * step_ / (2 * groups_) >= task_work) {
      groups_ *= 2;
    }
    // Smaller chunks of samples would make more sums of weights, which take memory.
    const double largest = kMaxTaskWork * groups_ / work;
    if (shape_.kind != ConvKind::kWeight && step_ > largest) {
      step_ = std::max<int64_t>(1, static_cast<int64_t>(largest));
      chunks_ = (shape_.samples + step_ - 1) / step_;
    }
    while (work * step_ / groups_ > kMaxTaskWork && split % (2 * groups_ * block) == 0) {
      groups_ *= 2;
    }
    return work * step_ / groups_ <= kMostTaskWork;
  }

  absl::Status Allocate() {
    const ConvPlan& p = *plan_;
    image_bytes_ = std::max(p.image.bytes(), last_->image.bytes());
    features_bytes_ = std::max(p.features.bytes(), last_->features.bytes());
    slot_bytes_ = image_bytes_ + features_bytes_ +
                  std::max(DnnlBytes(p.scratchpad), DnnlBytes(last_->scratchpad));
    slot_count_ = static_cast<int>(std::min<int64_t>(chunks_ * groups_, pool_.threads()));
    CHX_ASSIGN_OR_RETURN(void* const slots,
                         args_.scratch.Allocate(std::max<size_t>(64, slot_bytes_ * slot_count_)));
    slots_ = static_cast<char*>(slots);
    const bool sums = shape_.kind == ConvKind::kWeight;
    weight_bytes_ = DnnlBytes(p.weight.inner);
    copies_ = sums ? chunks_ : 1;
    if (p.weight.reorder || copies_ > 1) {
      CHX_ASSIGN_OR_RETURN(void* const weights,
                           args_.scratch.Allocate(weight_bytes_ * groups_ * copies_));
      weights_ = static_cast<char*>(weights);
    }
    return absl::OkStatus();
  }

  // Where group `g` of an array begins.
  char* PlainWeight(int64_t g) const {
    const int64_t step = splits_features() ? shape_.num_weights() / groups_
                                           : shape_.channels / groups_ * shape_.windows.kernel_size;
    return w_ + g * step * item_;
  }
  char* InnerWeight(int64_t g, int64_t copy) const {
    return weights_ == nullptr ? PlainWeight(g) : weights_ + (g * copies_ + copy) * weight_bytes_;
  }
  char* PlainImage(int64_t chunk, int64_t g) const {
    const int64_t group = splits_channels() ? shape_.channels / groups_ * g : 0;
    return x_ + (chunk * step_ * shape_.channels + group) * shape_.windows.image_size * item_;
  }
  char* PlainFeatures(int64_t chunk, int64_t g) const {
    const int64_t group = splits_features() ? shape_.features / groups_ * g : 0;
    return y_ + (chunk * step_ * shape_.features + group) * shape_.windows.count * item_;
  }

  void Check(bool ok) {
    if (!ok) failed_ = true;
  }

  // Between the caller's weights and those of the primitive.
  void ReorderWeights() {
    const ConvSide& side = plan_->weight;
    if (!side.reorder) {
      if (weights_ != nullptr) CopyWeights();
      return;
    }
    const bool out = shape_.kind == ConvKind::kWeight;
    pool_.ParallelFor(groups_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const DnnlArgument plain = {out ? DNNL_ARG_TO : DNNL_ARG_FROM, &side.plain, PlainWeight(g)};
        const DnnlArgument inner = {out ? DNNL_ARG_FROM : DNNL_ARG_TO, &side.inner,
                                    InnerWeight(g, 0)};
        Check(side.reorder.Run({plain, inner}));
      }
    });
  }

  // One layout, but summed aside: groups of features follow one another.
  void CopyWeights() {
    const int64_t n = shape_.num_weights() / groups_;
    for (int64_t g = 0; g < groups_; ++g) {
      CopyBytes(PlainWeight(g), InnerWeight(g, 0), n * item_);
    }
  }

  // Adds the results of the chunks to the first copy of each group.
  void SumWeights() {
    if (copies_ == 1) return;
    const auto n = static_cast<int64_t>(weight_bytes_ / sizeof(float));
    constexpr int64_t kSpan = 16 << 10;
    const int64_t spans = (n + kSpan - 1) / kSpan;
    pool_.ParallelFor(groups_ * spans, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t g = i / spans;
        const int64_t first = i % spans * kSpan;
        const int64_t last = std::min(n, first + kSpan);
        float* const sum = reinterpret_cast<float*>(InnerWeight(g, 0));
        for (int64_t copy = 1; copy < copies_; ++copy) {
          const float* const from = reinterpret_cast<const float*>(InnerWeight(g, copy));
          for (int64_t j = first; j < last; ++j) sum[j] += from[j];
        }
      }
    });
  }

  void Task(int64_t chunk, int64_t g, char* slot) {
    const ConvPlan& plan = chunk == chunks_ - 1 ? *last_ : *plan_;
    const ConvSide& image = plan.image;
    const ConvSide& features = plan.features;
    char* const plain_image = PlainImage(chunk, g);
    char* const plain_features = PlainFeatures(chunk, g);
    const void* const inner_image = image.reorder ? slot : plain_image;
    const void* const inner_features = features.reorder ? slot + image_bytes_ : plain_features;
    const void* const scratchpad = slot + image_bytes_ + features_bytes_;
    const ConvKind kind = shape_.kind;
    const auto reorder = [&](const ConvSide& side, const void* plain, const void* inner, bool out) {
      if (!side.reorder) return;
      Check(side.reorder.Run({{out ? DNNL_ARG_TO : DNNL_ARG_FROM, &side.plain, plain},
                              {out ? DNNL_ARG_FROM : DNNL_ARG_TO, &side.inner, inner}}));
    };
    if (kind != ConvKind::kImage) reorder(image, plain_image, inner_image, false);
    if (kind != ConvKind::kForward) reorder(features, plain_features, inner_features, false);
    const void* const weight = InnerWeight(g, kind == ConvKind::kWeight ? chunk : 0);
    absl::InlinedVector<DnnlArgument, 5> arguments = {
        {kind == ConvKind::kImage ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, &image.inner, inner_image},
        {kind == ConvKind::kWeight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, &plan.weight.inner,
         weight},
        {kind == ConvKind::kForward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, &features.inner,
         inner_features},
        {DNNL_ARG_SCRATCHPAD, &plan.scratchpad, scratchpad}};
    if (biased()) {
      arguments.push_back(
          {DNNL_ARG_BIAS, &plan.bias, bias_ + g * (shape_.features / groups_) * item_});
    }
    Check(plan.convolution.Run(arguments));
    if (kind == ConvKind::kForward) reorder(features, plain_features, inner_features, true);
    if (kind == ConvKind::kImage) {
      reorder(image, plain_image, inner_image, true);
      if (bias_ != nullptr) AddBias(chunk, g);
    }
  }

  // Of float32: oneDNN adds none to an image.
  void AddBias(int64_t chunk, int64_t g) const {
    const auto* const bias = reinterpret_cast<const float*>(bias_);
    const int64_t samples = std::min(step_, shape_.samples - chunk * step_);
    const int64_t channels = shape_.channels / groups_;
    const int64_t size = shape_.windows.image_size;
    for (int64_t n = 0; n < samples; ++n) {
      float* const sample =
          reinterpret_cast<float*>(PlainImage(chunk, g)) + n * shape_.channels * size;
      for (int64_t c = 0; c < channels; ++c) {
        const float b = bias[g * channels + c];
        for (int64_t i = 0; i < size; ++i) sample[c * size + i] += b;
      }
    }
  }

  const KernelArgs& args_;
  ThreadPool& pool_;
  const ConvShape& shape_;
  const int64_t item_;  // bytes
  char* const x_;
  char* const w_;
  const char* const bias_;
  char* const y_;
  int64_t step_ = 1;    // samples of a chunk
  int64_t chunks_ = 1;  // of samples
  int64_t groups_ = 1;  // of features or channels
  std::shared_ptr<const ConvPlan> plan_;
  std::shared_ptr<const ConvPlan> last_;  // for the last chunk
  size_t image_bytes_ = 0;
  size_t features_bytes_ = 0;
  size_t slot_bytes_ = 0;
  int slot_count_ = 0;
  char* slots_ = nullptr;
  size_t weight_bytes_ = 0;
  int64_t copies_ = 1;       // of the weights' sums, one for each chunk
  char* weights_ = nullptr;  // null: the caller's
  std::atomic<bool> failed_{false};
};

// The code that oneDNN makes has offsets of 32 bits in it, and it does not check them.
bool Fits(const ConvShape& shape) {
  const Windows& w = shape.windows;
  if (w.ndim > 3 || w.image_size == 0) return false;
  const double channels = static_cast<double>(shape.channels) + kBlock;
  const double features = static_cast<double>(shape.features) + kBlock;
  bool fits =
      std::max(channels * w.image_size, features * w.count) < kMaxElements &&
      channels * features / static_cast<double>(shape.groups) * w.kernel_size < kMaxElements;
  for (int d = 0; d < w.ndim; ++d) {
    fits = fits && w.stride[d] <= kMaxStep && shape.extent(d) <= kMaxStep &&
           w.pad[d] < shape.extent(d);
  }
  return fits;
}

}  // namespace

bool DnnlIsFaster(const ConvShape& shape) {
  const Windows& w = shape.windows;
  if (!Fits(shape) || (shape.bfloat16 && !HasBfloat16Instructions())) return false;
  // Matrices of single groups are small, and many.
  if (shape.groups > 1) return true;
  const double windows = static_cast<double>(shape.samples) * w.count;
  // The overhead of a call: a few microseconds for each of its primitives.
  if (windows * shape.channels * shape.features * w.kernel_size < 50e3) return false;
  // This is a single matrix product without copies.
  if (shape.samples == 1 && w.kernel_size == 1) return false;
  // oneDNN computes whole blocks of channels.
  if (shape.kind == ConvKind::kImage) return shape.channels >= kBlock / 2;
  // There must be enough work to pay for changing the layout of the weights.
  if (shape.kind == ConvKind::kWeight) return windows >= (w.kernel_size == 1 ? 4096 : 512);
  return true;
}

absl::StatusOr<bool> DnnlConvolution(const KernelArgs& args, const ConvShape& shape, char* x,
                                     char* w, const char* bias, char* y) {
  if (!Fits(shape) || Dnnl() == nullptr) return false;
  return Run(args, shape, x, w, bias, y)();
}

}  // namespace chx::server::native
