// What changes gradients before an optimizer's step; each is one command for all parameters:
//
//   status = optimizer.AddHook("decay", chx::optimizers::WeightDecay{1e-4});
#ifndef CHX_CLIENT_OPTIMIZER_HOOKS_H_
#define CHX_CLIENT_OPTIMIZER_HOOKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/array.h"

namespace chx {
namespace optimizers {

// grads += rate * params.
struct WeightDecay {
  double rate;
  absl::Status operator()(absl::Span<const Array> params, absl::Span<const Array> grads) const;
};

// grads += rate * sign(params).
struct Lasso {
  double rate;
  absl::Status operator()(absl::Span<const Array> params, absl::Span<const Array> grads) const;
};

// Scales all gradients of a device so that their common L2 norm is at most threshold.
struct GradientClipping {
  double threshold;
  absl::Status operator()(absl::Span<const Array> params, absl::Span<const Array> grads) const;
};

// Clips every element of the gradients to [lower_bound, upper_bound].
struct GradientHardClipping {
  double lower_bound;
  double upper_bound;
  absl::Status operator()(absl::Span<const Array> params, absl::Span<const Array> grads) const;
};

// Adds normal noise of variance eta / (1 + t) ** 0.55 in step t (from 0), made on the device. Two
// commands for each parameter.
struct GradientNoise {
  double eta;
  int64_t t = 0;
  absl::Status operator()(absl::Span<const Array> params, absl::Span<const Array> grads);
};

// Layer-wise adaptive rate scaling (You et al., 2017), with weight decay.
struct GradientLARS {
  double threshold = 1e-2;
  double weight_decay = 0.0;
  double eps = 1e-9;
  absl::Status operator()(absl::Span<const Array> params, absl::Span<const Array> grads) const;
};

}  // namespace optimizers
}  // namespace chx

#endif  // CHX_CLIENT_OPTIMIZER_HOOKS_H_
