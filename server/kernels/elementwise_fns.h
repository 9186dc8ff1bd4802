// The scalar formula of each elementwise operator, written once for host and device. A functor is
// called with computed types (types.h): float for float16, bool for bool. The lists say which
// operators share a signature; each backend registers a kernel for every member.
#ifndef CHX_SERVER_KERNELS_ELEMENTWISE_FNS_H_
#define CHX_SERVER_KERNELS_ELEMENTWISE_FNS_H_

#include <cmath>
#include <type_traits>

#include "server/kernels/float_math.h"
#include "server/kernels/host_device.h"
#include "server/kernels/math.h"

namespace chx::server::kernels {

template <typename... Fns>
struct FnList {
  static constexpr int kSize = sizeof...(Fns);
};

// Position of Fn in a list.
template <typename Fn, typename List>
struct FnIndexImpl;
template <typename Fn, typename... Rest>
struct FnIndexImpl<Fn, FnList<Fn, Rest...>> : std::integral_constant<int, 0> {};
template <typename Fn, typename First, typename... Rest>
struct FnIndexImpl<Fn, FnList<First, Rest...>>
    : std::integral_constant<int, 1 + FnIndexImpl<Fn, FnList<Rest...>>::value> {};
template <typename Fn, typename List>
inline constexpr int kFnIndex = FnIndexImpl<Fn, List>::value;

// Calls visit(Fn()) for each formula of a list.
template <typename... Fns, typename Visit>
void ForEachFn(FnList<Fns...>, Visit&& visit) {
  (visit(Fns()), ...);
}

template <typename T>
inline constexpr bool kIsBool = std::is_same<T, bool>::value;
template <typename T>
inline constexpr bool kIsFloat = std::is_floating_point<T>::value;

// Declares a functor for an operator; the body follows.
#define CHX_UNARY_FN(Name, op)             \
  struct Name {                            \
    static constexpr const char* kOp = op; \
    template <typename T>                  \
    CHX_HD auto operator()(T x) const;     \
  };                                       \
  template <typename T>                    \
  CHX_HD auto Name::operator()(T x) const
#define CHX_BINARY_FN(Name, op)             \
  struct Name {                             \
    static constexpr const char* kOp = op;  \
    template <typename T>                   \
    CHX_HD auto operator()(T x, T y) const; \
  };                                        \
  template <typename T>                     \
  CHX_HD auto Name::operator()(T x, T y) const

CHX_UNARY_FN(ExpFn, "exp") { return Exp(x); }
CHX_UNARY_FN(LogFn, "log") { return Log(x); }
CHX_UNARY_FN(SqrtFn, "sqrt") { return Sqrt(x); }
CHX_UNARY_FN(TanhFn, "tanh") { return Tanh(x); }
CHX_UNARY_FN(SigmoidFn, "sigmoid") { return Sigmoid(x); }
CHX_UNARY_FN(Expm1Fn, "expm1") { return Expm1(x); }
CHX_UNARY_FN(Exp2Fn, "exp2") { return Exp2(x); }
CHX_UNARY_FN(Log2Fn, "log2") { return Log2(x); }
CHX_UNARY_FN(Log10Fn, "log10") { return Log10(x); }
CHX_UNARY_FN(Log1pFn, "log1p") { return Log1p(x); }
CHX_UNARY_FN(ErfFn, "erf") { return Erf(x); }
CHX_UNARY_FN(SinFn, "sin") { return Sin(x); }
CHX_UNARY_FN(CosFn, "cos") { return Cos(x); }
CHX_UNARY_FN(TanFn, "tan") { return Tan(x); }
CHX_UNARY_FN(ArcsinFn, "arcsin") { return Asin(x); }
CHX_UNARY_FN(ArccosFn, "arccos") { return Acos(x); }
CHX_UNARY_FN(ArctanFn, "arctan") { return Atan(x); }
CHX_UNARY_FN(SinhFn, "sinh") { return Sinh(x); }
CHX_UNARY_FN(CoshFn, "cosh") { return Cosh(x); }
CHX_UNARY_FN(ArcsinhFn, "arcsinh") { return Asinh(x); }
CHX_UNARY_FN(ArccoshFn, "arccosh") { return Acosh(x); }
CHX_UNARY_FN(ArctanhFn, "arctanh") { return Atanh(x); }
CHX_UNARY_FN(FloorFn, "floor") { return static_cast<T>(std::floor(x)); }
CHX_UNARY_FN(CeilFn, "ceil") { return static_cast<T>(std::ceil(x)); }
CHX_UNARY_FN(TruncFn, "trunc") { return static_cast<T>(std::trunc(x)); }
// Halves go to the even neighbour.
CHX_UNARY_FN(RintFn, "rint") { return static_cast<T>(std::rint(x)); }

CHX_UNARY_FN(CbrtFn, "cbrt") { return static_cast<T>(std::cbrt(x)); }

CHX_UNARY_FN(Negative, "negative") {
  if constexpr (kIsFloat<T> || kIsBool<T>) {
    return static_cast<T>(-x);
  } else {
    return WrapSubtract(T(0), x);
  }
}
CHX_UNARY_FN(Square, "square") {
  if constexpr (kIsFloat<T> || kIsBool<T>) {
    return static_cast<T>(x * x);
  } else {
    return WrapMultiply(x, x);
  }
}
CHX_UNARY_FN(Abs, "abs") {
  if constexpr (kIsFloat<T>) {
    return static_cast<T>(std::fabs(x));
  } else if constexpr (std::is_signed<T>::value) {
    return x < 0 ? WrapSubtract(T(0), x) : x;
  } else {
    return x;
  }
}
CHX_UNARY_FN(Sign, "sign") {
  if constexpr (std::is_signed<T>::value) {
    const T sign = static_cast<T>((x > T(0)) - (x < T(0)));
    return x != x ? x : sign;
  } else {
    return static_cast<T>(x != T(0));
  }
}
// NaN passes through.
CHX_UNARY_FN(Relu, "relu") { return x < T(0) ? T(0) : x; }
CHX_UNARY_FN(LogicalNot, "logical_not") { return x == T(0); }

// In comparisons only, which vectorise.
CHX_UNARY_FN(IsNan, "isnan") { return x != x; }
CHX_UNARY_FN(IsInf, "isinf") {
  if constexpr (kIsFloat<T>) {
    return x == static_cast<T>(HUGE_VAL) || x == static_cast<T>(-HUGE_VAL);
  } else {
    return false;
  }
}
CHX_UNARY_FN(IsFinite, "isfinite") {
  if constexpr (kIsFloat<T>) {
    return x - x == T(0);
  } else {
    return true;
  }
}

CHX_BINARY_FN(Add, "add") {
  if constexpr (kIsBool<T>) {
    return x || y;
  } else if constexpr (kIsFloat<T>) {
    return x + y;
  } else {
    return WrapAdd(x, y);
  }
}
CHX_BINARY_FN(Subtract, "subtract") {
  if constexpr (kIsBool<T>) {
    return x != y;
  } else if constexpr (kIsFloat<T>) {
    return x - y;
  } else {
    return WrapSubtract(x, y);
  }
}
CHX_BINARY_FN(Multiply, "multiply") {
  if constexpr (kIsBool<T>) {
    return x && y;
  } else if constexpr (kIsFloat<T>) {
    return x * y;
  } else {
    return WrapMultiply(x, y);
  }
}
// NaN wins.
CHX_BINARY_FN(Maximum, "maximum") { return (x > y) | (x != x) ? x : y; }
CHX_BINARY_FN(Minimum, "minimum") { return (x < y) | (x != x) ? x : y; }
CHX_BINARY_FN(Power, "power") {
  if constexpr (kIsBool<T>) {
    return x || !y;
  } else if constexpr (kIsFloat<T>) {
    // Exact, and the most frequent power by far.
    return y == T(2) ? x * x : Pow(x, y);
  } else {
    return IntPower(x, y);
  }
}
CHX_BINARY_FN(FloorDivide, "floor_divide") {
  if constexpr (kIsBool<T>) {
    return x && y;
  } else if constexpr (kIsFloat<T>) {
    return FloatFloorDivide(x, y, FmodOf(x, y));
  } else {
    return IntFloorDivide(x, y);
  }
}
CHX_BINARY_FN(Remainder, "remainder") {
  if constexpr (kIsBool<T>) {
    return false;
  } else if constexpr (kIsFloat<T>) {
    return FloatRemainder(x, y, FmodOf(x, y));
  } else {
    return IntRemainder(x, y);
  }
}
CHX_BINARY_FN(Fmod, "fmod") {
  if constexpr (kIsBool<T>) {
    return false;
  } else if constexpr (kIsFloat<T>) {
    return FmodOf(x, y);
  } else {
    return IntFmod(x, y);
  }
}

// Inference refuses floats for these.
CHX_BINARY_FN(BitwiseAnd, "bitwise_and") {
  if constexpr (kIsFloat<T>) {
    return x;
  } else {
    return static_cast<T>(x & y);
  }
}
CHX_BINARY_FN(BitwiseOr, "bitwise_or") {
  if constexpr (kIsFloat<T>) {
    return x;
  } else {
    return static_cast<T>(x | y);
  }
}
CHX_BINARY_FN(BitwiseXor, "bitwise_xor") {
  if constexpr (kIsFloat<T>) {
    return x;
  } else {
    return static_cast<T>(x ^ y);
  }
}
// By less than the number of bits, or all bits are shifted out, as in NumPy.
CHX_BINARY_FN(LeftShift, "left_shift") {
  if constexpr (kIsFloat<T> || kIsBool<T>) {
    return x;
  } else {
    return y >= T(0) && static_cast<uint64_t>(y) < 8 * sizeof(T)
               ? static_cast<T>(static_cast<uint64_t>(x) << static_cast<uint64_t>(y))
               : T(0);
  }
}
CHX_BINARY_FN(RightShift, "right_shift") {
  if constexpr (kIsFloat<T> || kIsBool<T>) {
    return x;
  } else {
    if (y >= T(0) && static_cast<uint64_t>(y) < 8 * sizeof(T)) return static_cast<T>(x >> y);
    return x < T(0) ? static_cast<T>(-1) : T(0);
  }
}

CHX_BINARY_FN(Divide, "divide") { return x / y; }
CHX_BINARY_FN(Arctan2, "arctan2") { return Atan2(x, y); }
CHX_BINARY_FN(Hypot, "hypot") { return static_cast<T>(std::hypot(x, y)); }
CHX_BINARY_FN(Copysign, "copysign") { return static_cast<T>(std::copysign(x, y)); }
// Equal infinities have no difference.
CHX_BINARY_FN(Logaddexp, "logaddexp") {
  const T difference = x == y ? T(0) : x - y;
  const T greater = x > y || x != x ? x : y;
  return greater + Log1pUnit(Exp(-std::fabs(difference)));
}
// Of y = relu(x), and the gradient of y.
CHX_BINARY_FN(ReluGrad, "relu_grad") {
  if constexpr (kIsBool<T>) {
    return x && y;
  } else {
    return x > T(0) ? y : T(0);
  }
}

template <typename T>
CHX_HD uint64_t Magnitude(T x) {
  if constexpr (T(-1) < T(0)) {
    if (x < 0) return uint64_t{0} - static_cast<uint64_t>(x);
  }
  return static_cast<uint64_t>(x);
}
CHX_HD uint64_t Euclid(uint64_t x, uint64_t y) {
  while (y != 0) {
    const uint64_t rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}
// Of integers only, by inference. The magnitude of the least number is taken modulo 2^n, as
// NumPy's.
CHX_BINARY_FN(Gcd, "gcd") {
  if constexpr (kIsBool<T> || kIsFloat<T>) {
    return T(0);
  } else {
    return static_cast<T>(Euclid(Magnitude(x), Magnitude(y)));
  }
}
CHX_BINARY_FN(Lcm, "lcm") {
  if constexpr (kIsBool<T> || kIsFloat<T>) {
    return T(0);
  } else {
    const auto divisor = Euclid(Magnitude(x), Magnitude(y));
    return divisor == 0 ? T(0) : static_cast<T>(Magnitude(x) / divisor * Magnitude(y));
  }
}
CHX_BINARY_FN(Nextafter, "nextafter") { return static_cast<T>(std::nextafter(x, y)); }

CHX_BINARY_FN(Equal, "equal") { return x == y; }
CHX_BINARY_FN(NotEqual, "not_equal") { return x != y; }
CHX_BINARY_FN(Greater, "greater") { return x > y; }
CHX_BINARY_FN(GreaterEqual, "greater_equal") { return x >= y; }
CHX_BINARY_FN(Less, "less") { return x < y; }
CHX_BINARY_FN(LessEqual, "less_equal") { return x <= y; }

CHX_BINARY_FN(LogicalAnd, "logical_and") { return x != T(0) && y != T(0); }
CHX_BINARY_FN(LogicalOr, "logical_or") { return x != T(0) || y != T(0); }
CHX_BINARY_FN(LogicalXor, "logical_xor") { return (x != T(0)) != (y != T(0)); }

#undef CHX_UNARY_FN
#undef CHX_BINARY_FN

// Moves elements only: T is any type of the item's size.
struct Where {
  static constexpr const char* kOp = "where";
  template <typename T>
  CHX_HD T operator()(bool condition, T x, T y) const {
    return condition ? x : y;
  }
};

#ifndef __CUDA_ARCH__
// Formulas for float that vectorise for the usual arguments only: `kExists`, when they hold, and
// what they give there. The C library does the rest, element by element.
template <typename Fn>
struct UsualCase {
  static constexpr bool kExists = false;
};
#define CHX_USUAL_CASE(Fn, holds, ...)                                                      \
  template <>                                                                               \
  struct UsualCase<Fn> {                                                                    \
    static constexpr bool kExists = true;                                                   \
    template <typename... Args>                                                             \
    CHX_HD static bool Holds(Args... args) {                                                \
      return host::holds(args...);                                                          \
    }                                                                                       \
    CHX_HD static float Call(float x, [[maybe_unused]] float y = 0) { return __VA_ARGS__; } \
  }
CHX_USUAL_CASE(SinFn, IsUsualForSin, host::SinUsual(x));
CHX_USUAL_CASE(CosFn, IsUsualForSin, host::CosUsual(x));
CHX_USUAL_CASE(TanFn, IsUsualForSin, host::TanUsual(x));
CHX_USUAL_CASE(Arctan2, IsUsualForAtan2, host::Atan2Usual(x, y));
CHX_USUAL_CASE(Power, IsUsualForPow, host::PowUsual(x, y));
CHX_USUAL_CASE(Fmod, IsUsualForFmod, host::FmodUsual(x, y));
CHX_USUAL_CASE(Remainder, IsUsualForFmod, FloatRemainder(x, y, host::FmodUsual(x, y)));
CHX_USUAL_CASE(FloorDivide, IsUsualForFmod, FloatFloorDivide(x, y, host::FmodUsual(x, y)));
#undef CHX_USUAL_CASE
#endif  // __CUDA_ARCH__

// float16/32/64 -> the same.
using UnaryFloatFns =
    FnList<ExpFn, LogFn, SqrtFn, TanhFn, SigmoidFn, Expm1Fn, Exp2Fn, Log2Fn, Log10Fn, Log1pFn,
           ErfFn, SinFn, CosFn, TanFn, ArcsinFn, ArccosFn, ArctanFn, SinhFn, CoshFn, ArcsinhFn,
           ArccoshFn, ArctanhFn, FloorFn, CeilFn, TruncFn, RintFn, Relu, CbrtFn>;
// Any dtype -> the same.
using UnarySameFns = FnList<Negative, Square, Abs, Sign>;
// bool -> bool: inference casts the inputs.
using UnaryLogicalFns = FnList<LogicalNot>;
// Any dtype -> bool.
using UnaryTestFns = FnList<IsNan, IsInf, IsFinite>;
// Two of a dtype -> the same.
using BinaryArithmeticFns =
    FnList<Add, Subtract, Multiply, Maximum, Minimum, Power, FloorDivide, Remainder, Fmod, ReluGrad,
           BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift, RightShift, Gcd, Lcm>;
// Two of float16/32/64 -> the same.
using BinaryFloatFns = FnList<Divide, Arctan2, Hypot, Copysign, Logaddexp, Nextafter>;
// Two of a dtype -> bool.
using ComparisonFns = FnList<Equal, NotEqual, Greater, GreaterEqual, Less, LessEqual>;
// Two bools -> bool: inference casts the inputs.
using LogicalFns = FnList<LogicalAnd, LogicalOr, LogicalXor>;

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_ELEMENTWISE_FNS_H_
