#include "client/optimizer_hooks.h"

#include <cmath>
#include <vector>

#include "client/ops.h"
#include "client/session.h"

namespace chx {
namespace optimizers {
namespace {

std::vector<Operand> Operands(absl::Span<const Array> arrays) {
  return std::vector<Operand>(arrays.begin(), arrays.end());
}

}  // namespace

absl::Status WeightDecay::operator()(absl::Span<const Array> params,
                                     absl::Span<const Array> grads) const {
  return weight_decay(Operands(grads), Operands(params), rate);
}

absl::Status Lasso::operator()(absl::Span<const Array> params,
                               absl::Span<const Array> grads) const {
  return lasso(Operands(grads), Operands(params), rate);
}

absl::Status GradientClipping::operator()(absl::Span<const Array> params,
                                          absl::Span<const Array> grads) const {
  return gradient_clipping(Operands(grads), threshold);
}

absl::Status GradientHardClipping::operator()(absl::Span<const Array> params,
                                              absl::Span<const Array> grads) const {
  return gradient_hard_clipping(Operands(grads), lower_bound, upper_bound);
}

absl::Status GradientNoise::operator()(absl::Span<const Array> params,
                                       absl::Span<const Array> grads) {
  const double scale = std::sqrt(eta / std::pow(1.0 + static_cast<double>(t), 0.55));
  for (Array grad : grads) {
    CHX_ASSIGN_OR_RETURN(ArrayPtr noise,
                         grad.body()->session->Random("random_normal", grad.shape().span(), 0.0,
                                                      scale, grad.dtype(), grad.spec().device));
    CHX_RETURN_IF_ERROR(grad += Array(std::move(noise)));
  }
  ++t;
  return absl::OkStatus();
}

absl::Status GradientLARS::operator()(absl::Span<const Array> params,
                                      absl::Span<const Array> grads) const {
  return gradient_lars(Operands(grads), Operands(params), threshold, weight_decay, eps);
}

}  // namespace optimizers
}  // namespace chx
