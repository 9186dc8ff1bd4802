// The inner loops of layers of neural networks: LoopSet::layers.
#ifndef CHX_SERVER_NATIVE_LOOPS_LAYER_LOOPS_H_
#define CHX_SERVER_NATIVE_LOOPS_LAYER_LOOPS_H_

#include <cstdint>

#include "ops/dtype.h"
#include "server/kernels/smooth_fns.h"
#include "server/native/loops/loops.h"

namespace chx::server::native {

// Normalization of one row of n dense elements of a floating type T, and its gradient; what they
// sum is in T's computed type C, as weight and bias are. Where it is not centered, the mean counts
// as 0.
struct RowNormLoops {
  // y = (x - mean) / sqrt(variance + eps) * weight + bias. weight and bias may be null.
  void (*row)(bool centered, const void* x, int64_t n, double eps, const void* weight,
              const void* bias, void* y);
  // The gradient of x, from that of y. Unless these are null: gweight += gy * (x - mean) / ...,
  // gbias += gy.
  void (*grad)(bool centered, const void* x, const void* gy, int64_t n, double eps,
               const void* weight, void* gx, void* gweight, void* gbias);
  // totals += sums; sums = 0.
  void (*collect)(void* sums, int64_t n, double* totals);
};

// Normalization of a group of channels of one sample, which follow each other with `size` elements
// each, and its gradient; weight and bias have an element for each channel, and may be null.
struct GroupNormLoops {
  void (*row)(const void* x, int64_t channels, int64_t size, double eps, const void* weight,
              const void* bias, void* y);
  // gweight and gbias: those of this sample, for each channel.
  void (*grad)(const void* x, const void* gy, int64_t channels, int64_t size, double eps,
               const void* weight, void* gx, double* gweight, double* gbias);
};

// Cross entropy of one row of n scores with smoothed labels, and its gradient:
// (1 - smoothing) * (lse - x[label]) + smoothing * (lse - mean(x)), where lse = log(sum(exp(x))).
struct SmoothLossLoops {
  void (*row)(const void* x, int64_t n, int64_t label, double smoothing, void* loss);
  void (*grad)(const void* x, int64_t n, int64_t label, double smoothing, const void* gy, void* gx);
};

// What is added to scores of attention: `bias`, of their type, and infinity is subtracted where
// `keep` is false. Either may be null.
struct AttentionMask {
  const void* bias;
  const bool* keep;
};
// How one row of attention is made from some of its scores at a time.
struct AttentionRow {
  double max;  // of the scores so far, rounded to their type; at first minus infinity
  double sum;  // of their exponentials, divided by that of max
};

// Parts of attention, for rows of n dense scores of one floating type.
struct AttentionLoops {
  // scores = exp(scores * scale + mask - max), with the row's new maximum. Returns what sums of
  // earlier elements have to be multiplied by.
  double (*weights)(void* scores, int64_t n, double scale, const AttentionMask& mask,
                    AttentionRow* row);
  // x *= factor.
  void (*scale)(void* x, int64_t n, double factor);
  double (*dot)(const void* x, const void* y, int64_t n);
  // scores = exp(scores * scale + mask - lse), grads = scores * (grads - delta) * scale.
  void (*grad)(void* scores, void* grads, int64_t n, double scale, const AttentionMask& mask,
               double lse, double delta);
  // y = 0 or 1 / (1 - p) for each score, as dropout with probability p has it: by the numbers from
  // `first` on that uniform_by_key draws from `seed`.
  void (*dropout)(uint64_t seed, int64_t first, int64_t n, double p, void* y);
  // Turns n pairs of x by angles: elements i and n + i or, interleaved, 2 i and 2 i + 1.
  void (*rotate)(bool interleaved, const void* x, int64_t n, const void* cos, const void* sin,
                 void* y);
};

// y from x1, x2 and delta, and gx from x1, x2, gy and delta.
struct HuberLoops {
  Loop loss;
  Loop grad;
};

// Steps of connectionist temporal classification, in logarithms, for n neighbouring places of a
// path, of one floating type. y overlaps nothing.
struct CtcLoops {
  // y = log(exp(a) + exp(b) + exp(c + skip)) + emission.
  void (*step)(const void* a, const void* b, const void* c, const void* skip, const void* emission,
               int64_t n, void* y);
  // y = exp(alpha + beta - emission + loss) * factor.
  void (*share)(const void* alpha, const void* beta, const void* emission, int64_t n, double loss,
                double factor, void* y);
};

struct LayerLoops {
  // By position in the list of server/kernels/smooth_fns.h, then by dtype: floats only.
  Loop smooth[kernels::SmoothFns::kSize][kNumDtypes];
  Loop smooth_grad[kernels::SmoothGradFns::kSize][kNumDtypes];
  RowNormLoops row_norm[kNumDtypes];
  GroupNormLoops group_norm[kNumDtypes];
  SmoothLossLoops smooth_loss[kNumDtypes];
  HuberLoops huber[kNumDtypes];
  AttentionLoops attention[kNumDtypes];  // float32 and float64
  CtcLoops ctc[kNumDtypes];              // likewise
};

}  // namespace chx::server::native

#endif  // CHX_SERVER_NATIVE_LOOPS_LAYER_LOOPS_H_
