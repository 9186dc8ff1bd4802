// Reducers, for host and device. Each says how an accumulator (Acc) begins, what an element adds to
// it, how two accumulators combine and what the result is. Append is the same as Combine with one
// element, which comes after those that were combined. Combining is associative up to rounding.
// NaNs behave as in NumPy.
#ifndef CHX_SERVER_KERNELS_REDUCE_OPS_H_
#define CHX_SERVER_KERNELS_REDUCE_OPS_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "server/kernels/elementwise_fns.h"
#include "server/kernels/host_device.h"
#include "server/kernels/math.h"
#include "server/kernels/types.h"

namespace chx::server::kernels {

// The result type of a sum: int64 for bool and integers, T for floats.
template <typename T>
using SumOutput = std::conditional_t<kIsFloat<Compute<T>>, T, int64_t>;

// float16 is summed in float; integers wrap around.
template <typename T>
struct SumReducer {
  using Out = SumOutput<T>;
  using Acc = Compute<Out>;
  CHX_HD static Acc Identity() { return Acc(0); }
  CHX_HD static Acc FromElement(Compute<T> x, int64_t) { return static_cast<Acc>(x); }
  CHX_HD static Acc Combine(Acc a, Acc b) { return Add()(a, b); }
  CHX_HD static Acc Append(Acc acc, Compute<T> x, int64_t) {
    return Add()(acc, static_cast<Acc>(x));
  }
  CHX_HD static Out Finish(Acc acc) { return Store<Out>(acc); }
};

// Values at the far ends of C's order. (nvcc refuses numeric_limits in device code.)
template <typename C>
CHX_HD C HighestValue() {
  if constexpr (kIsFloat<C>) {
    return static_cast<C>(HUGE_VAL);
  } else if constexpr (std::is_signed<C>::value) {
    return static_cast<C>(~uint64_t{0} >> (65 - 8 * sizeof(C)));
  } else {
    return static_cast<C>(~uint64_t{0});
  }
}
template <typename C>
CHX_HD C LowestValue() {
  if constexpr (kIsFloat<C>) {
    return static_cast<C>(-HUGE_VAL);
  } else if constexpr (std::is_signed<C>::value) {
    return static_cast<C>(-HighestValue<C>() - 1);
  } else {
    return C(0);
  }
}

// Elements of one type, which a formula combines.
template <typename T, typename Fn>
struct FnReducer {
  using Out = T;
  using Acc = Compute<T>;
  CHX_HD static Acc FromElement(Compute<T> x, int64_t) { return x; }
  CHX_HD static Acc Combine(Acc a, Acc b) { return Fn()(a, b); }
  CHX_HD static Acc Append(Acc acc, Compute<T> x, int64_t) { return Fn()(acc, x); }
  CHX_HD static Out Finish(Acc acc) { return Store<T>(acc); }
};

// NaN wins.
template <typename T>
struct MaxReducer : FnReducer<T, Maximum> {
  CHX_HD static Compute<T> Identity() { return LowestValue<Compute<T>>(); }
};
template <typename T>
struct MinReducer : FnReducer<T, Minimum> {
  CHX_HD static Compute<T> Identity() { return HighestValue<Compute<T>>(); }
};

// Inference has cast integers to the dtype of the product: int64, unless one was given.
template <typename T>
struct ProdReducer : FnReducer<T, Multiply> {
  CHX_HD static Compute<T> Identity() { return Compute<T>(1); }
};

template <typename C>
struct ValueAndIndex {
  C value;
  int64_t index;
};

// The position of the largest (kSign = 1) or smallest (-1) element; the first of equals, and the
// first NaN before all. `index` is the position in the reduced dimensions' C order. A negative
// index marks "nothing yet", so reductions of at least one element give a valid position.
template <typename T, int kSign>
struct ArgReducer {
  using Out = int64_t;
  using Acc = ValueAndIndex<Compute<T>>;
  CHX_HD static Acc Identity() { return {Compute<T>(0), -1}; }
  CHX_HD static Acc FromElement(Compute<T> x, int64_t index) { return {x, index}; }
  CHX_HD static bool Better(Compute<T> a, Compute<T> b) {
    const bool beyond = kSign > 0 ? a > b : a < b;
    return beyond || (a != a && b == b);
  }
  CHX_HD static Acc Combine(Acc a, Acc b) {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    if (Better(a.value, b.value)) return a;
    if (Better(b.value, a.value)) return b;
    return a.index < b.index ? a : b;
  }
  // The first of equals stays.
  CHX_HD static Acc Append(Acc acc, Compute<T> x, int64_t index) {
    if (acc.index < 0 || Better(x, acc.value)) acc = {x, index};
    return acc;
  }
  CHX_HD static Out Finish(Acc acc) { return acc.index; }
};
template <typename T>
using ArgMaxReducer = ArgReducer<T, 1>;
template <typename T>
using ArgMinReducer = ArgReducer<T, -1>;

template <typename C>
struct MaxAndSum {
  C max;
  C sum;  // of exp(x - max)
};

// log(sum(exp(x))) without overflow; floats only. Nothing gives -inf.
template <typename T>
struct LogSumExpReducer {
  using C = Compute<T>;
  using Out = T;
  using Acc = MaxAndSum<C>;
  CHX_HD static Acc Identity() { return {LowestValue<C>(), C(0)}; }
  CHX_HD static Acc FromElement(C x, int64_t) { return {x, C(1)}; }
  // exp(x - max), where equal infinities give 1 and not NaN.
  CHX_HD static C Scaled(C x, C max) { return x == max ? C(1) : Exp(x - max); }
  CHX_HD static Acc Combine(Acc a, Acc b) {
    const C max = Maximum()(a.max, b.max);
    return {max, a.sum * Scaled(a.max, max) + b.sum * Scaled(b.max, max)};
  }
  CHX_HD static Acc Append(Acc acc, C x, int64_t index) {
    return Combine(acc, FromElement(x, index));
  }
  CHX_HD static Out Finish(Acc acc) {
    const bool infinite = acc.max == LowestValue<C>() || acc.max == HighestValue<C>();
    return Store<T>(infinite ? acc.max : acc.max + Log(acc.sum));
  }
};

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_REDUCE_OPS_H_
