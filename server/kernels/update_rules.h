// The formulas of ops/defs/optimizers.cc, for host and device: one element of each list, in the
// order of the operator's inputs. The rules and their order of evaluation are Chainer's.
#ifndef CHX_SERVER_KERNELS_UPDATE_RULES_H_
#define CHX_SERVER_KERNELS_UPDATE_RULES_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "server/kernels/host_device.h"

namespace chx::server::kernels {

// A rule has a name, the number of lists, which of them it writes (a bit each, as
// OpDef::written_inputs), a constructor from the operator's attributes (NaN: absent), and the step.
// C is float or double; what doesn't depend on elements is computed in double, once.

template <typename C>
struct Sgd {
  static constexpr const char* kName = "sgd_update";
  static constexpr int kLists = 2;
  static constexpr uint32_t kWritten = 0b01;
  C lr;
  CHX_HD explicit Sgd(const double* a) : lr(static_cast<C>(a[0])) {}
  CHX_HD void operator()(C* x) const { x[0] -= lr * x[1]; }
};

template <typename C>
struct MomentumSgd {
  static constexpr const char* kName = "momentum_sgd_update";
  static constexpr int kLists = 3;
  static constexpr uint32_t kWritten = 0b101;
  C lr, momentum;
  CHX_HD explicit MomentumSgd(const double* a)
      : lr(static_cast<C>(a[0])), momentum(static_cast<C>(a[1])) {}
  CHX_HD void operator()(C* x) const {
    x[2] = momentum * x[2] - lr * x[1];
    x[0] += x[2];
  }
};

template <typename C>
struct CorrectedMomentumSgd {
  static constexpr const char* kName = "corrected_momentum_sgd_update";
  static constexpr int kLists = 3;
  static constexpr uint32_t kWritten = 0b101;
  C lr, momentum;
  CHX_HD explicit CorrectedMomentumSgd(const double* a)
      : lr(static_cast<C>(a[0])), momentum(static_cast<C>(a[1])) {}
  CHX_HD void operator()(C* x) const {
    x[2] = momentum * x[2] - x[1];
    x[0] += lr * x[2];
  }
};

template <typename C>
struct NesterovAg {
  static constexpr const char* kName = "nesterov_ag_update";
  static constexpr int kLists = 3;
  static constexpr uint32_t kWritten = 0b101;
  C lr, momentum, squared, ahead;
  CHX_HD explicit NesterovAg(const double* a)
      : lr(static_cast<C>(a[0])),
        momentum(static_cast<C>(a[1])),
        squared(static_cast<C>(a[1] * a[1])),
        ahead(static_cast<C>((1 + a[1]) * a[0])) {}
  CHX_HD void operator()(C* x) const {
    x[2] = momentum * x[2] - lr * x[1];
    x[0] = (x[0] + squared * x[2]) - ahead * x[1];
  }
};

template <typename C>
struct AdaGrad {
  static constexpr const char* kName = "ada_grad_update";
  static constexpr int kLists = 3;
  static constexpr uint32_t kWritten = 0b101;
  C lr, eps;
  CHX_HD explicit AdaGrad(const double* a) : lr(static_cast<C>(a[0])), eps(static_cast<C>(a[1])) {}
  CHX_HD void operator()(C* x) const {
    x[2] += x[1] * x[1];
    x[0] -= lr * x[1] / (std::sqrt(x[2]) + eps);
  }
};

template <typename C>
struct AdaDelta {
  static constexpr const char* kName = "ada_delta_update";
  static constexpr int kLists = 4;
  static constexpr uint32_t kWritten = 0b1101;
  C rho, rest, eps;
  CHX_HD explicit AdaDelta(const double* a)
      : rho(static_cast<C>(a[0])), rest(static_cast<C>(1 - a[0])), eps(static_cast<C>(a[1])) {}
  CHX_HD void operator()(C* x) const {
    x[2] = rho * x[2] + rest * x[1] * x[1];
    const C step = std::sqrt((x[3] + eps) / (x[2] + eps)) * x[1];
    x[3] = rho * x[3] + rest * step * step;
    x[0] -= step;
  }
};

// Adam and its relatives (AdamW by eta and the decay); the rate is clipped to [lower, upper]
// (AdaBound), which may be absent.
template <typename C>
struct AdamFormula {
  C step, rest1, rest2, eps, eta, kept, lower, upper;
  CHX_HD explicit AdamFormula(const double* a)
      : step(static_cast<C>(a[0])),
        rest1(static_cast<C>(1 - a[1])),
        rest2(static_cast<C>(1 - a[2])),
        eps(static_cast<C>(a[3])),
        eta(static_cast<C>(a[4])),
        kept(static_cast<C>(1 - a[4] * a[5])),
        lower(static_cast<C>(a[6])),
        upper(static_cast<C>(a[7])) {}
  CHX_HD void Moments(C* x) const {
    x[2] += rest1 * (x[1] - x[2]);
    x[3] += rest2 * (x[1] * x[1] - x[3]);
  }
  CHX_HD void Step(C variance, C* x) const {
    C rate = step / (std::sqrt(variance) + eps);
    rate = rate < lower ? lower : rate;
    rate = rate > upper ? upper : rate;
    x[0] = kept * x[0] - eta * (rate * x[2]);
  }
};

template <typename C>
struct Adam : AdamFormula<C> {
  static constexpr const char* kName = "adam_update";
  static constexpr int kLists = 4;
  static constexpr uint32_t kWritten = 0b1101;
  CHX_HD explicit Adam(const double* a) : AdamFormula<C>(a) {}
  CHX_HD void operator()(C* x) const {
    this->Moments(x);
    this->Step(x[3], x);
  }
};

template <typename C>
struct AmsGrad : AdamFormula<C> {
  static constexpr const char* kName = "amsgrad_update";
  static constexpr int kLists = 5;
  static constexpr uint32_t kWritten = 0b11101;
  CHX_HD explicit AmsGrad(const double* a) : AdamFormula<C>(a) {}
  CHX_HD void operator()(C* x) const {
    this->Moments(x);
    // A NaN stays, as NumPy's maximum.
    x[4] = x[3] > x[4] || x[3] != x[3] ? x[3] : x[4];
    this->Step(x[4], x);
  }
};

template <typename C>
struct RmsProp {
  static constexpr const char* kName = "rmsprop_update";
  static constexpr int kLists = 3;
  static constexpr uint32_t kWritten = 0b101;
  C lr, alpha, rest, inside, outside;
  CHX_HD explicit RmsProp(const double* a)
      : lr(static_cast<C>(a[0])),
        alpha(static_cast<C>(a[1])),
        rest(static_cast<C>(1 - a[1])),
        inside(static_cast<C>(a[3] != 0 ? a[2] : 0)),
        outside(static_cast<C>(a[3] != 0 ? 0 : a[2])) {}
  CHX_HD void operator()(C* x) const {
    x[2] = alpha * x[2] + rest * x[1] * x[1];
    x[0] -= lr * x[1] / (std::sqrt(x[2] + inside) + outside);
  }
};

template <typename C>
struct RmsPropGraves {
  static constexpr const char* kName = "rmsprop_graves_update";
  static constexpr int kLists = 5;
  static constexpr uint32_t kWritten = 0b11101;
  C lr, alpha, rest, momentum, eps;
  CHX_HD explicit RmsPropGraves(const double* a)
      : lr(static_cast<C>(a[0])),
        alpha(static_cast<C>(a[1])),
        rest(static_cast<C>(1 - a[1])),
        momentum(static_cast<C>(a[2])),
        eps(static_cast<C>(a[3])) {}
  CHX_HD void operator()(C* x) const {
    x[2] = alpha * x[2] + rest * x[1] * x[1];
    x[3] = alpha * x[3] + rest * x[1];
    x[4] = momentum * x[4] - lr * x[1] / std::sqrt(x[2] - x[3] * x[3] + eps);
    x[0] += x[4];
  }
};

template <typename C>
struct Smorms3 {
  static constexpr const char* kName = "smorms3_update";
  static constexpr int kLists = 5;
  static constexpr uint32_t kWritten = 0b11101;
  C lr, eps;
  CHX_HD explicit Smorms3(const double* a) : lr(static_cast<C>(a[0])), eps(static_cast<C>(a[1])) {}
  CHX_HD void operator()(C* x) const {
    const C r = C(1) / (x[2] + C(1));
    x[3] = (C(1) - r) * x[3] + r * x[1];
    x[4] = (C(1) - r) * x[4] + r * x[1] * x[1];
    const C trust = x[3] * x[3] / (x[4] + eps);
    const C rate = trust > lr ? lr : trust;
    x[0] -= x[1] * rate / (std::sqrt(x[4]) + eps);
    x[2] = C(1) + x[2] * (C(1) - trust);
  }
};

template <typename C>
struct MsVag {
  static constexpr const char* kName = "msvag_update";
  static constexpr int kLists = 4;
  static constexpr uint32_t kWritten = 0b1101;
  C lr, rest, eta, decay, correction, rho;
  CHX_HD explicit MsVag(const double* a)
      : lr(static_cast<C>(a[0])),
        rest(static_cast<C>(1 - a[1])),
        eta(static_cast<C>(a[2])),
        decay(static_cast<C>(a[3])),
        correction(static_cast<C>(1 - a[4])),
        rho(static_cast<C>(Rho(a[1], a[4]))) {}
  // From beta and beta to the power of the number of steps.
  CHX_HD static double Rho(double beta, double power) {
    const double rho = (1 - beta) * (1 - beta) * (1 - power * power) /
                       ((1 - power) * (1 - power) * (1 - beta * beta));
    return rho < 0.9999 ? rho : 0.9999;
  }
  CHX_HD void operator()(C* x) const {
    x[2] += rest * (x[1] - x[2]);
    x[3] += rest * (x[1] * x[1] - x[3]);
    const C mean = x[2] / correction;
    const C square = mean * mean;
    const C variance = (x[3] / correction - square) / (C(1) - rho);
    C factor = square / (square + rho * variance);
    factor = factor > C(0) ? factor : C(0);  // 0 for NaN
    factor = factor > C(1) ? C(1) : factor;
    x[0] -= eta * (lr * mean * factor + decay * x[0]);
  }
};

template <typename C>
struct WeightDecay {
  static constexpr const char* kName = "weight_decay";
  static constexpr int kLists = 2;
  static constexpr uint32_t kWritten = 0b01;
  C rate;
  CHX_HD explicit WeightDecay(const double* a) : rate(static_cast<C>(a[0])) {}
  CHX_HD void operator()(C* x) const { x[0] += rate * x[1]; }
};

template <typename C>
struct Lasso {
  static constexpr const char* kName = "lasso";
  static constexpr int kLists = 2;
  static constexpr uint32_t kWritten = 0b01;
  C rate;
  CHX_HD explicit Lasso(const double* a) : rate(static_cast<C>(a[0])) {}
  CHX_HD void operator()(C* x) const {
    const C sign = x[1] > C(0) ? C(1) : x[1] < C(0) ? C(-1) : x[1];
    x[0] += rate * sign;
  }
};

template <typename C>
struct HardClipping {
  static constexpr const char* kName = "gradient_hard_clipping";
  static constexpr int kLists = 1;
  static constexpr uint32_t kWritten = 0b1;
  C lower, upper;
  CHX_HD explicit HardClipping(const double* a)
      : lower(static_cast<C>(a[0])), upper(static_cast<C>(a[1])) {}
  CHX_HD void operator()(C* x) const {
    x[0] = x[0] < lower ? lower : x[0];
    x[0] = x[0] > upper ? upper : x[0];
  }
};

template <typename C>
struct MovingAverage {
  static constexpr const char* kName = "moving_average";
  static constexpr int kLists = 2;
  static constexpr uint32_t kWritten = 0b01;
  C rest;
  CHX_HD explicit MovingAverage(const double* a) : rest(static_cast<C>(1 - a[0])) {}
  CHX_HD void operator()(C* x) const { x[0] += rest * (x[1] - x[0]); }
};

template <template <typename> class... Rules>
struct RuleList {
  static constexpr int kSize = sizeof...(Rules);
};

template <template <typename> class Rule, template <typename> class... Rules>
constexpr int IndexOfRule(RuleList<Rules...>) {
  constexpr bool kIsIt[] = {std::is_same_v<Rule<float>, Rules<float>>...};
  int i = 0;
  while (!kIsIt[i]) ++i;
  return i;
}
template <template <typename> class Rule, typename List>
inline constexpr int kRuleIndex = IndexOfRule<Rule>(List());

using UpdateRules = RuleList<Sgd, MomentumSgd, CorrectedMomentumSgd, NesterovAg, AdaGrad, AdaDelta,
                             Adam, AmsGrad, RmsProp, RmsPropGraves, Smorms3, MsVag, WeightDecay,
                             Lasso, HardClipping, MovingAverage>;

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_UPDATE_RULES_H_
