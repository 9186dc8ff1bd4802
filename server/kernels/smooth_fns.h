// Formulas of ops/defs/activation_smooth.cc, as those of elementwise_fns.h: of float16 (computed as
// float), float32 and float64.
#ifndef CHX_SERVER_KERNELS_SMOOTH_FNS_H_
#define CHX_SERVER_KERNELS_SMOOTH_FNS_H_

#include "server/kernels/elementwise_fns.h"
#include "server/kernels/float_math.h"
#include "server/kernels/host_device.h"
#include "server/kernels/math.h"

namespace chx::server::kernels {

// A functor of x for the operator, and one of x and the gradient of the result for its gradient.
#define CHX_SMOOTH_FN(Name, op)            \
  struct Name {                            \
    static constexpr const char* kOp = op; \
    template <typename T>                  \
    CHX_HD T operator()(T x) const;        \
  };                                       \
  template <typename T>                    \
  CHX_HD T Name::operator()(T x) const
#define CHX_SMOOTH_GRAD_FN(Name, op)       \
  struct Name {                            \
    static constexpr const char* kOp = op; \
    template <typename T>                  \
    CHX_HD T operator()(T x, T gy) const;  \
  };                                       \
  template <typename T>                    \
  CHX_HD T Name::operator()(T x, T gy) const

CHX_SMOOTH_FN(Silu, "silu") { return x * Sigmoid(x); }
CHX_SMOOTH_GRAD_FN(SiluGrad, "silu_grad") {
  const T s = Sigmoid(x);
  return gy * (s * (T(1) + x * (T(1) - s)));
}

// x times the normal distribution function.
CHX_SMOOTH_FN(GeluErf, "gelu_erf") { return x * NormalBelow(x); }
CHX_SMOOTH_GRAD_FN(GeluErfGrad, "gelu_erf_grad") {
  return gy * (NormalBelow(x) + x * (Exp(T(-0.5) * x * x) * T(0.39894228040143268)));
}

// (1 + tanh(u)) / 2 is the sigmoid of 2 u.
template <typename T>
CHX_HD T GeluTanhArgument(T x) {
  return T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
}
CHX_SMOOTH_FN(GeluTanh, "gelu_tanh") { return x * Sigmoid(GeluTanhArgument(x)); }
CHX_SMOOTH_GRAD_FN(GeluTanhGrad, "gelu_tanh_grad") {
  const T s = Sigmoid(GeluTanhArgument(x));
  const T slope = T(1.5957691216057308) * (T(1) + T(0.134145) * x * x);
  return gy * (s * (T(1) + x * (T(1) - s) * slope));
}

// tanh(log(1 + e^x)) = n / (n + 2), n = e^x (e^x + 2); beyond 20 that is 1.
template <typename T>
CHX_HD T BoundedExp(T x) {
  return Exp(x > T(20) ? T(20) : x);
}
CHX_SMOOTH_FN(Mish, "mish") {
  const T e = BoundedExp(x);
  const T n = e * (e + T(2));
  return x * (n / (n + T(2)));
}
CHX_SMOOTH_GRAD_FN(MishGrad, "mish_grad") {
  const T e = BoundedExp(x);
  const T n = e * (e + T(2));
  const T inverse = T(1) / (n + T(2));
  return gy * (n * inverse + x * (T(4) * e * (e + T(1)) * inverse * inverse));
}

CHX_SMOOTH_FN(Hardswish, "hardswish") {
  const T shifted = x < T(-3) ? T(0) : x + T(3);
  return x * (shifted > T(6) ? T(6) : shifted) * T(1.0 / 6);
}
CHX_SMOOTH_GRAD_FN(HardswishGrad, "hardswish_grad") {
  const T slope = x > T(3) ? T(1) : x * T(1.0 / 3) + T(0.5);
  return gy * (x < T(-3) ? T(0) : slope);
}

#undef CHX_SMOOTH_FN
#undef CHX_SMOOTH_GRAD_FN

using SmoothFns = FnList<Silu, GeluErf, GeluTanh, Mish, Hardswish>;
using SmoothGradFns = FnList<SiluGrad, GeluErfGrad, GeluTanhGrad, MishGrad, HardswishGrad>;

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_SMOOTH_FNS_H_
