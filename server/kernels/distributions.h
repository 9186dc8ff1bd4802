// Random numbers by rejection: an element takes as many blocks of the generator as it needs, which
// are (counter + i, 0), (counter + i, 1), ... for element i. Every loop ends, whatever the
// parameters are. Equal over backends up to the rounding of log, exp, sin and cos.
#ifndef CHX_SERVER_KERNELS_DISTRIBUTIONS_H_
#define CHX_SERVER_KERNELS_DISTRIBUTIONS_H_

#include <cmath>
#include <cstdint>

#include "server/kernels/philox.h"

namespace chx::server::kernels {

// More attempts than any element needs: each succeeds with a probability of 0.4 at least.
inline constexpr int kMaxAttempts = 200;
// Where counting in int64 ends.
inline constexpr double kMostEvents = 9.2e18;

class PhiloxStream {
 public:
  CHX_HD PhiloxStream(uint64_t seed, uint64_t counter) : seed_(seed), counter_(counter) {}

  // In [0, 1).
  CHX_HD double Unit() {
    if (next_ == 2) {
      block_ = Philox(seed_, counter_, stream_++);
      next_ = 0;
    }
    return PhiloxUnit<double>(block_, next_++);
  }
  CHX_HD double Normal() {
    double pair[2];
    PhiloxNormal<double>(Philox(seed_, counter_, stream_++), 0, 1, pair);
    return pair[0];
  }

 private:
  const uint64_t seed_;
  const uint64_t counter_;
  uint32_t stream_ = 0;
  PhiloxBlock block_ = {};
  int next_ = 2;
};

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. NaN for a < 0.
CHX_HD double GammaVariate(PhiloxStream& stream, double a) {
  if (!(a > 0) || a > 1e300) return a == 0 || a > 0 ? a : static_cast<double>(NAN);
  double scale = 1;
  if (a < 1) {
    scale = std::pow(1 - stream.Unit(), 1 / a);
    a += 1;
  }
  const double d = a - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (int i = 0; i < kMaxAttempts; ++i) {
    const double x = stream.Normal();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    if (std::log(1 - stream.Unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v * scale;
    }
  }
  return d * scale;
}

// log(k!), by Stirling's series from 10 on.
CHX_HD double LogFactorial(double k) {
  if (k < 10) {
    double product = 1;
    for (double i = 2; i <= k; ++i) product *= i;
    return std::log(product);
  }
  const double z = k + 1;
  const double square = z * z;
  return (z - 0.5) * std::log(z) - z + 0.91893853320467274178 +
         (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / z;
}

// Hörmann, "The transformed rejection method for generating Poisson random variables", 1993; small
// rates by counting. -1 for rates that are negative, NaN or beyond what int64 counts.
CHX_HD int64_t PoissonVariate(PhiloxStream& stream, double rate) {
  if (!(rate >= 0) || rate > kMostEvents) return -1;
  if (rate < 10) {
    const double end = std::exp(-rate);
    double product = 1 - stream.Unit();
    int64_t count = 0;
    for (; product > end && count < 10 * kMaxAttempts; ++count) product *= 1 - stream.Unit();
    return count;
  }
  const double log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate);
  const double a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const double quick = 0.9277 - 3.6224 / (b - 2);
  for (int i = 0; i < kMaxAttempts; ++i) {
    const double u = stream.Unit() - 0.5;
    const double v = 1 - stream.Unit();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (!(k >= 0) || k > kMostEvents) continue;
    if (us >= 0.07 && v <= quick) return static_cast<int64_t>(k);
    if (us < 0.013 && v > us) continue;
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <=
        k * log_rate - rate - LogFactorial(k)) {
      return static_cast<int64_t>(k);
    }
  }
  return static_cast<int64_t>(rate);
}

// Hörmann, "The generation of binomial random variates", 1993; few expected successes by going
// through their probabilities. -1 for n < 0, or p outside of [0, 1].
CHX_HD int64_t BinomialVariate(PhiloxStream& stream, int64_t trials, double p) {
  if (trials < 0 || !(p >= 0 && p <= 1)) return -1;
  const bool swapped = p > 0.5;
  if (swapped) p = 1 - p;
  const double q = 1 - p;
  const double n = static_cast<double>(trials);
  const auto of = [&](double k) {
    const int64_t count = static_cast<int64_t>(k);
    return swapped ? trials - count : count;
  };
  if (n * p < 10) {
    const double first = std::exp(n * std::log1p(-p));
    const double last = n < 200 ? n : 200;  // far beyond what occurs
    for (int i = 0; i < kMaxAttempts; ++i) {
      double u = stream.Unit();
      double probability = first;
      for (double k = 0; k <= last; ++k) {
        if (u < probability) return of(k);
        u -= probability;
        probability *= (n - k) / (k + 1) * (p / q);
      }
    }
    return of(0);
  }
  const double deviation = std::sqrt(n * p * q);
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double quick = 0.92 - 4.2 / b;
  const double mode = std::floor((n + 1) * p);
  const double log_odds = std::log(p / q);
  const double at_mode = LogFactorial(mode) + LogFactorial(n - mode);
  for (int i = 0; i < kMaxAttempts; ++i) {
    const double u = stream.Unit() - 0.5;
    const double v = 1 - stream.Unit();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + n * p + 0.5);
    if (!(k >= 0 && k <= n) || k > kMostEvents) continue;
    if (us >= 0.07 && v <= quick) return of(k);
    if (std::log(v * alpha / (a / (us * us) + b)) <=
        at_mode - LogFactorial(k) - LogFactorial(n - k) + (k - mode) * log_odds) {
      return of(k);
    }
  }
  return of(mode);
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_DISTRIBUTIONS_H_
