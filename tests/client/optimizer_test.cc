// Every optimizer of C++ against its paper's or Chainer's formula in double, over several steps.
#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include "client/optimizers.h"
#include "tests/client/client_fixture.h"

namespace chx {
namespace {

using optimizers::Optimizer;

constexpr int kSteps = 5;

// One element: its parameter p, gradient g, and up to three states. t: the step, from 1 on.
using Formula = std::function<void(double* p, double g, double* s, int t)>;

struct Case {
  std::unique_ptr<Optimizer> optimizer;
  Formula formula;
  double first_state = 0;  // of s[0]
};

template <typename O>
Case With(const std::function<void(O*)>& set, Formula formula, double first_state = 0) {
  auto optimizer = std::make_unique<O>();
  set(optimizer.get());
  return {std::move(optimizer), std::move(formula), first_state};
}

// The rate of Adam and its relatives with alpha 0.02, beta1 0.8, beta2 0.95.
double AdamRate(int t) { return 0.02 * std::sqrt(1 - std::pow(0.95, t)) / (1 - std::pow(0.8, t)); }

void Moments(double g, double* s) {
  s[0] = 0.8 * s[0] + 0.2 * g;
  s[1] = 0.95 * s[1] + 0.05 * g * g;
}

template <typename O>
void SetAdam(O* o) {
  o->alpha = 0.02;
  o->beta1 = 0.8;
  o->beta2 = 0.95;
  o->eps = 1e-3;
}

template <typename O>
void SetBound(O* o) {
  SetAdam(o);
  o->final_lr = 0.05;
  o->gamma = 0.2;
}

double BoundedRate(double variance, int t) {
  const double rate = AdamRate(t) / (std::sqrt(variance) + 1e-3);
  const double lower = 0.05 * (1 - 1 / (0.2 * t + 1));
  const double upper = 0.05 * (1 + 1 / (0.2 * t));
  return std::min(std::max(rate, lower), upper);
}

class OptimizerTest : public ClientTest {
 protected:
  // Steps three parameters of the optimizer, and as many by the formula.
  void Check(Case c) {
    using namespace std::placeholders;
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    const std::vector<size_t> sizes = {3, 1, 4};
    std::vector<Array> params;
    std::vector<Vector> values, states;
    for (size_t size : sizes) {
      values.emplace_back(size);
      for (double& value : values.back()) value = normal(random);
      params.push_back(MakeParam(values.back()));
      states.emplace_back(size * 3);
      for (size_t i = 0; i < size; ++i) states.back()[i * 3] = c.first_state;
    }
    ASSERT_OK(c.optimizer->Setup(params));
    for (int t = 1; t <= kSteps; ++t) {
      for (size_t k = 0; k < params.size(); ++k) {
        Vector grad(sizes[k]);
        for (double& g : grad) g = normal(random);
        ASSERT_OK(params[k].SetGrad(Make(grad)));
        for (size_t i = 0; i < grad.size(); ++i) {
          c.formula(&values[k][i], grad[i], &states[k][i * 3], t);
        }
      }
      ASSERT_OK(c.optimizer->Update());
      ASSERT_OK(c.optimizer->ClearGrads());
      for (size_t k = 0; k < params.size(); ++k) ExpectNear(Values(params[k]), values[k], 1e-12);
    }
    EXPECT_EQ(c.optimizer->t(), kSteps);
  }
};

TEST_F(OptimizerTest, Sgd) {
  Check(With<optimizers::SGD>([](auto* o) { o->lr = 0.3; },
                              [](double* p, double g, double*, int) { *p -= 0.3 * g; }));
}

TEST_F(OptimizerTest, MomentumSgd) {
  Check(With<optimizers::MomentumSGD>(
      [](auto* o) {
        o->lr = 0.3;
        o->momentum = 0.7;
      },
      [](double* p, double g, double* s, int) { *p += s[0] = 0.7 * s[0] - 0.3 * g; }));
}

TEST_F(OptimizerTest, CorrectedMomentumSgd) {
  Check(With<optimizers::CorrectedMomentumSGD>(
      [](auto* o) {
        o->lr = 0.3;
        o->momentum = 0.7;
      },
      [](double* p, double g, double* s, int) { *p += 0.3 * (s[0] = 0.7 * s[0] - g); }));
}

TEST_F(OptimizerTest, NesterovAg) {
  Check(With<optimizers::NesterovAG>(
      [](auto* o) {
        o->lr = 0.3;
        o->momentum = 0.7;
      },
      [](double* p, double g, double* s, int) {
        s[0] = 0.7 * s[0] - 0.3 * g;
        *p += 0.7 * 0.7 * s[0] - 1.7 * 0.3 * g;
      }));
}

TEST_F(OptimizerTest, AdaGrad) {
  Check(With<optimizers::AdaGrad>(
      [](auto* o) {
        o->lr = 0.3;
        o->eps = 1e-2;
      },
      [](double* p, double g, double* s, int) {
        s[0] += g * g;
        *p -= 0.3 * g / (std::sqrt(s[0]) + 1e-2);
      }));
}

TEST_F(OptimizerTest, AdaDelta) {
  Check(With<optimizers::AdaDelta>(
      [](auto* o) {
        o->rho = 0.9;
        o->eps = 1e-2;
      },
      [](double* p, double g, double* s, int) {
        s[0] = 0.9 * s[0] + 0.1 * g * g;
        const double step = std::sqrt(s[1] + 1e-2) / std::sqrt(s[0] + 1e-2) * g;
        s[1] = 0.9 * s[1] + 0.1 * step * step;
        *p -= step;
      }));
}

TEST_F(OptimizerTest, Adam) {
  Check(
      With<optimizers::Adam>(SetAdam<optimizers::Adam>, [](double* p, double g, double* s, int t) {
        Moments(g, s);
        *p -= AdamRate(t) * s[0] / (std::sqrt(s[1]) + 1e-3);
      }));
}

TEST_F(OptimizerTest, AdamW) {
  Check(With<optimizers::AdamW>(
      [](optimizers::AdamW* o) {
        SetAdam(o);
        o->eta = 0.5;
        o->weight_decay_rate = 0.1;
      },
      [](double* p, double g, double* s, int t) {
        Moments(g, s);
        *p -= 0.5 * (AdamRate(t) * s[0] / (std::sqrt(s[1]) + 1e-3) + 0.1 * *p);
      }));
}

TEST_F(OptimizerTest, AmsGrad) {
  Check(With<optimizers::AMSGrad>(SetAdam<optimizers::AMSGrad>,
                                  [](double* p, double g, double* s, int t) {
                                    Moments(g, s);
                                    s[2] = std::max(s[2], s[1]);
                                    *p -= AdamRate(t) * s[0] / (std::sqrt(s[2]) + 1e-3);
                                  }));
}

TEST_F(OptimizerTest, AdaBound) {
  Check(With<optimizers::AdaBound>(SetBound<optimizers::AdaBound>,
                                   [](double* p, double g, double* s, int t) {
                                     Moments(g, s);
                                     *p -= BoundedRate(s[1], t) * s[0];
                                   }));
}

TEST_F(OptimizerTest, AmsBound) {
  Check(With<optimizers::AMSBound>(SetBound<optimizers::AMSBound>,
                                   [](double* p, double g, double* s, int t) {
                                     Moments(g, s);
                                     s[2] = std::max(s[2], s[1]);
                                     *p -= BoundedRate(s[2], t) * s[0];
                                   }));
}

TEST_F(OptimizerTest, RmsProp) {
  for (const bool inside : {false, true}) {
    Check(With<optimizers::RMSprop>(
        [inside](auto* o) {
          o->lr = 0.1;
          o->alpha = 0.9;
          o->eps = 1e-2;
          o->eps_inside_sqrt = inside;
        },
        [inside](double* p, double g, double* s, int) {
          s[0] = 0.9 * s[0] + 0.1 * g * g;
          *p -= 0.1 * g / (inside ? std::sqrt(s[0] + 1e-2) : std::sqrt(s[0]) + 1e-2);
        }));
  }
}

TEST_F(OptimizerTest, RmsPropGraves) {
  Check(With<optimizers::RMSpropGraves>(
      [](auto* o) {
        o->lr = 0.1;
        o->alpha = 0.9;
        o->momentum = 0.7;
        o->eps = 1e-2;
      },
      [](double* p, double g, double* s, int) {
        s[0] = 0.9 * s[0] + 0.1 * g * g;
        s[1] = 0.9 * s[1] + 0.1 * g;
        s[2] = 0.7 * s[2] - 0.1 * g / std::sqrt(s[0] - s[1] * s[1] + 1e-2);
        *p += s[2];
      }));
}

TEST_F(OptimizerTest, Smorms3) {
  Check(With<optimizers::SMORMS3>(
      [](auto* o) {
        o->lr = 0.1;
        o->eps = 1e-2;
      },
      [](double* p, double g, double* s, int) {
        const double r = 1 / (s[0] + 1);
        s[1] = (1 - r) * s[1] + r * g;
        s[2] = (1 - r) * s[2] + r * g * g;
        const double x = s[1] * s[1] / (s[2] + 1e-2);
        s[0] = 1 + s[0] * (1 - x);
        *p -= g * std::min(0.1, x) / (std::sqrt(s[2]) + 1e-2);
      },
      1));
}

TEST_F(OptimizerTest, MsVag) {
  Check(With<optimizers::MSVAG>(
      [](auto* o) {
        o->lr = 0.1;
        o->beta = 0.8;
        o->eta = 0.5;
        o->weight_decay_rate = 0.1;
      },
      [](double* p, double g, double* s, int t) {
        s[0] = 0.8 * s[0] + 0.2 * g;
        s[1] = 0.8 * s[1] + 0.2 * g * g;
        const double power = std::pow(0.8, t);
        const double rho = std::min(0.2 * (1 + power) / (1.8 * (1 - power)), 0.9999);
        const double m = s[0] / (1 - power);
        const double v = s[1] / (1 - power);
        const double noise = (v - m * m) / (1 - rho);
        const double factor = std::min(std::max(m * m / (m * m + rho * noise), 0.0), 1.0);
        *p -= 0.5 * (0.1 * m * factor + 0.1 * *p);
      }));
}

}  // namespace
}  // namespace chx
