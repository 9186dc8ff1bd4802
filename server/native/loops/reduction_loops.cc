// The reduction part of loops.inc.
//
// A Gather<T> collects elements in accumulators (Acc). Sums are blocked: up to kBlock elements in
// kLanes partial sums of the computed type, the blocks' sums in double (float16, float32) or with
// compensation (float64); the error is below that of pairwise summation.
#include <cmath>
#include <cstdint>

#include "server/engine/stop_requested.h"
#include "server/kernels/reduce_ops.h"

namespace chx::server::native {
namespace CHX_LOOPS_NAMESPACE {

inline constexpr int kLanes = 32;
inline constexpr int64_t kBlock = 1024;

// Long rows ask after so many elements whether to stop; a multiple of kBlock.
inline constexpr int64_t kPiece = 128 * kBlock;
CHX_HD bool StopBefore(int64_t element) {
  return element > 0 && element % kPiece == 0 && StopRequested();
}
// Calls fn(begin, end) for pieces of [0, n) until it is to stop.
template <typename Fn>
CHX_HD void InPieces(int64_t n, Fn fn) {
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    if (StopBefore(begin)) return;
    fn(begin, n - begin < kPiece ? n : begin + kPiece);
  }
}

// Folds n dense elements (n > 0) by an associative functor, in kLanes independent chains.
template <typename Fn, typename C, typename T>
CHX_HD C FoldDense(const T* x, int64_t n, C identity) {
  const Fn fn;
  C total = identity;
  int64_t i = 0;
  if (n >= kLanes) {
    C lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = static_cast<C>(Load(x[l]));
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = fn(lanes[l], static_cast<C>(Load(x[i + l])));
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l) lanes[l] = fn(lanes[l], lanes[l + width]);
    }
    total = lanes[0];
  }
  for (; i < n; ++i) total = fn(total, static_cast<C>(Load(x[i])));
  return total;
}

// A float64 sum with the rounding errors of its additions (Neumaier).
struct Compensated {
  double sum;
  double error;

  CHX_HD void Add(double x) {
    const double next = sum + x;
    const double big = std::fabs(sum) >= std::fabs(x) ? sum : x;
    const double little = std::fabs(sum) >= std::fabs(x) ? x : sum;
    error += (big - next) + little;
    sum = next;
  }
  // The error is NaN once an infinity has been added.
  CHX_HD double Total() const { return std::isfinite(sum) ? sum + error : sum; }
};

template <typename T>
struct SumGather {
  using C = Compute<T>;
  static constexpr bool kFloating = kernels::kIsFloat<C>;
  static constexpr bool kDouble = std::is_same<C, double>::value;
  // What a block is summed in: bools and integers in wrapping int64.
  using Partial = std::conditional_t<kFloating, C, int64_t>;
  using Acc =
      std::conditional_t<kDouble, Compensated, std::conditional_t<kFloating, double, int64_t>>;
  using Out = kernels::SumOutput<T>;

  CHX_HD static Acc Identity() { return Acc{}; }
  CHX_HD static void Add(Acc* acc, Partial x) {
    if constexpr (kDouble) {
      acc->Add(x);
    } else if constexpr (kFloating) {
      *acc += static_cast<double>(x);
    } else {
      *acc = kernels::WrapAdd(*acc, x);
    }
  }
  CHX_HD static void Combine(Acc* acc, const Acc& other) {
    if constexpr (kDouble) {
      acc->Add(other.sum);
      acc->error += other.error;
    } else {
      *acc = kernels::Add()(*acc, other);
    }
  }
  CHX_HD static Out Finish(const Acc& acc) {
    if constexpr (kDouble) {
      return acc.Total();
    } else {
      return kernels::Cast<Out>(acc);
    }
  }
  static void Row(const char* x, int64_t stride, int64_t n, int64_t, Acc* acc) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      Partial sum = Partial(0);
      if (stride == sizeof(T)) {
        const T* const dense = reinterpret_cast<const T*>(x) + begin;
        sum = FoldDense<kernels::Add>(dense, count, Partial(0));
      } else {
        T block[kBlock];
        for (int64_t i = 0; i < count; ++i) block[i] = At<T>(x, (begin + i) * stride);
        sum = FoldDense<kernels::Add>(block, count, Partial(0));
      }
      Add(acc, sum);
    }
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                      Acc* accs) {
    constexpr int64_t kRows = 16;
    constexpr int64_t kColumns = 512;
    Partial partial[kColumns];
    for (int64_t column = 0; column < n; column += kColumns) {
      const int64_t count = n - column < kColumns ? n - column : kColumns;
      for (int64_t begin = 0; begin < rows; begin += kRows) {
        const int64_t end = rows - begin < kRows ? rows : begin + kRows;
        for (int64_t i = 0; i < count; ++i) partial[i] = Partial(0);
        for (int64_t row = begin; row < end; ++row) {
          const T* const in = reinterpret_cast<const T*>(x + row * row_stride) + column;
          for (int64_t i = 0; i < count; ++i) {
            partial[i] = kernels::Add()(partial[i], static_cast<Partial>(Load(in[i])));
          }
        }
        CHX_INDEPENDENT
        for (int64_t i = 0; i < count; ++i) Add(&accs[column + i], partial[i]);
      }
    }
  }
};

// The largest or smallest element, or the product: Fn is Maximum, Minimum or Multiply.
template <typename T, typename Reducer, typename Fn>
struct FoldGather {
  using Acc = typename Reducer::Acc;
  using Out = T;

  CHX_HD static Acc Identity() { return Reducer::Identity(); }
  CHX_HD static void Combine(Acc* acc, const Acc& other) { *acc = Fn()(*acc, other); }
  CHX_HD static Out Finish(const Acc& acc) { return Reducer::Finish(acc); }
  static void Row(const char* x, int64_t stride, int64_t n, int64_t, Acc* acc) {
    if (stride == sizeof(T)) {
      *acc = Fn()(*acc, FoldDense<Fn>(reinterpret_cast<const T*>(x), n, Identity()));
    } else {
      Acc best = *acc;
      for (int64_t i = 0; i < n; ++i) best = Fn()(best, Load(At<T>(x, i * stride)));
      *acc = best;
    }
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                      Acc* accs) {
    const auto row_at = [&](int64_t row) {
      return reinterpret_cast<const T*>(x + row * row_stride);
    };
    int64_t row = 0;
    // Two rows at a time: the accumulators are read and written less often.
    for (; row + 2 <= rows; row += 2) {
      const T* const a = row_at(row);
      const T* const b = row_at(row + 1);
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        const Acc pair = Fn()(static_cast<Acc>(Load(a[i])), static_cast<Acc>(Load(b[i])));
        accs[i] = Fn()(accs[i], pair);
      }
    }
    for (; row < rows; ++row) {
      const T* const in = row_at(row);
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) accs[i] = Fn()(accs[i], Load(in[i]));
    }
  }
};
template <typename T>
struct MaxGather : FoldGather<T, kernels::MaxReducer<T>, kernels::Maximum> {};
template <typename T>
struct MinGather : FoldGather<T, kernels::MinReducer<T>, kernels::Minimum> {};

template <typename T>
struct ProdGather : FoldGather<T, kernels::ProdReducer<T>, kernels::Multiply> {};

// The position of the best element; a block is searched only if it has a better one.
template <typename T, typename Reducer, typename Fn, typename Extreme>
struct ArgGather {
  using Acc = typename Reducer::Acc;
  using Out = int64_t;
  using C = Compute<T>;

  CHX_HD static Acc Identity() { return Reducer::Identity(); }
  CHX_HD static void Combine(Acc* acc, const Acc& other) { *acc = Reducer::Combine(*acc, other); }
  CHX_HD static Out Finish(const Acc& acc) { return Reducer::Finish(acc); }
  static void Row(const char* x, int64_t stride, int64_t n, int64_t first, Acc* acc) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      T copy[kBlock];
      const T* block = reinterpret_cast<const T*>(x) + begin;
      if (stride != sizeof(T)) {
        for (int64_t i = 0; i < count; ++i) copy[i] = At<T>(x, (begin + i) * stride);
        block = copy;
      }
      const C best = FoldDense<Fn>(block, count, Extreme::Identity());
      if (acc->index >= 0 && !Reducer::Better(best, acc->value)) continue;
      int64_t i = 0;
      while (Load(block[i]) != best && (best == best || Load(block[i]) == Load(block[i]))) ++i;
      *acc = {best, first + begin + i};
    }
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t first,
                      Acc* accs) {
    for (int64_t row = 0; row < rows; ++row) {
      const T* const in = reinterpret_cast<const T*>(x + row * row_stride);
      for (int64_t i = 0; i < n; ++i) {
        const C value = Load(in[i]);
        if (accs[i].index < 0 || Reducer::Better(value, accs[i].value)) {
          accs[i] = {value, first + row};
        }
      }
    }
  }
};
template <typename T>
struct ArgMaxGather
    : ArgGather<T, kernels::ArgMaxReducer<T>, kernels::Maximum, kernels::MaxReducer<T>> {};
template <typename T>
struct ArgMinGather
    : ArgGather<T, kernels::ArgMinReducer<T>, kernels::Minimum, kernels::MinReducer<T>> {};

// The largest element and the sum of exp(x - it), in one pass over blocks that stay in the cache.
template <typename T>
struct LogSumExpGather {
  using Reducer = kernels::LogSumExpReducer<T>;
  using Acc = typename Reducer::Acc;
  using Out = T;
  using C = Compute<T>;

  CHX_HD static Acc Identity() { return Reducer::Identity(); }
  CHX_HD static void Combine(Acc* acc, const Acc& other) { *acc = Reducer::Combine(*acc, other); }
  CHX_HD static Out Finish(const Acc& acc) { return Reducer::Finish(acc); }
  // Of 0 < n <= kBlock elements.
  CHX_HD static Acc Block(const char* x, int64_t stride, int64_t n) {
    C block[kBlock];
    if (stride == sizeof(T)) {
      const T* const dense = reinterpret_cast<const T*>(x);
      for (int64_t i = 0; i < n; ++i) block[i] = Load(dense[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) block[i] = Load(At<T>(x, i * stride));
    }
    const C max = FoldDense<kernels::Maximum>(block, n, Identity().max);
    // Infinite or NaN: the sum does not count, but must not become NaN by inf - inf.
    if (!(std::fabs(max) <= std::numeric_limits<C>::max())) return {max, C(1)};
    for (int64_t i = 0; i < n; ++i) block[i] = kernels::Exp(block[i] - max);
    return {max, FoldDense<kernels::Add>(block, n, C(0))};
  }
  static void Row(const char* x, int64_t stride, int64_t n, int64_t, Acc* acc) {
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      if (StopBefore(begin)) return;
      *acc = Reducer::Combine(*acc, Block(x + begin * stride, stride, count));
    }
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t first,
                      Acc* accs) {
    constexpr int64_t kRows = 32;
    constexpr int64_t kColumns = 256;
    C max[kColumns];
    C sum[kColumns];
    for (int64_t column = 0; column < n; column += kColumns) {
      const int64_t count = n - column < kColumns ? n - column : kColumns;
      for (int64_t begin = 0; begin < rows; begin += kRows) {
        const int64_t end = rows - begin < kRows ? rows : begin + kRows;
        const auto row_at = [&](int64_t row) {
          return reinterpret_cast<const T*>(x + row * row_stride) + column;
        };
        for (int64_t i = 0; i < count; ++i) max[i] = Identity().max;
        for (int64_t row = begin; row < end; ++row) {
          const T* const in = row_at(row);
          for (int64_t i = 0; i < count; ++i) max[i] = kernels::Maximum()(max[i], Load(in[i]));
        }
        for (int64_t i = 0; i < count; ++i) sum[i] = C(0);
        for (int64_t row = begin; row < end; ++row) {
          const T* const in = row_at(row);
          for (int64_t i = 0; i < count; ++i) sum[i] += kernels::Exp(Load(in[i]) - max[i]);
        }
        for (int64_t i = 0; i < count; ++i) {
          // As in Block.
          const bool finite = std::fabs(max[i]) <= std::numeric_limits<C>::max();
          Acc& acc = accs[column + i];
          acc = Reducer::Combine(acc, {max[i], finite ? sum[i] : C(1)});
        }
      }
    }
  }
};

// The untyped functions of a Gather.
template <typename Gather>
struct Untyped {
  using Acc = typename Gather::Acc;
  static void Init(void* accs, int64_t n) {
    for (int64_t i = 0; i < n; ++i) static_cast<Acc*>(accs)[i] = Gather::Identity();
  }
  static void Row(const char* x, int64_t stride, int64_t n, int64_t first, void* acc) {
    if (n > 0) Gather::Row(x, stride, n, first, static_cast<Acc*>(acc));
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t first,
                      void* accs) {
    if (rows > 0) Gather::Columns(x, row_stride, rows, n, first, static_cast<Acc*>(accs));
  }
  static void Combine(void* accs, const void* others, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      Gather::Combine(static_cast<Acc*>(accs) + i, static_cast<const Acc*>(others)[i]);
    }
  }
  static void Finish(const void* accs, int64_t n, char* out) {
    using Out = typename Gather::Out;
    Out* const results = reinterpret_cast<Out*>(out);
    for (int64_t i = 0; i < n; ++i) results[i] = Gather::Finish(static_cast<const Acc*>(accs)[i]);
  }
};

template <typename Gather>
ReduceLoops MakeReduceLoops() {
  using U = Untyped<Gather>;
  return {sizeof(typename Gather::Acc), U::Init, U::Row, U::Columns, U::Combine, U::Finish};
}

template <typename T>
void CrossEntropyLoop(const char* x, int64_t n, int64_t label, char* loss) {
  using Gather = LogSumExpGather<T>;
  typename Gather::Acc acc = Gather::Identity();
  Gather::Row(x, sizeof(T), n, 0, &acc);
  const Compute<T> at_label = Load(reinterpret_cast<const T*>(x)[label]);
  // log(sum) + (max - x): keeps the digits that x + log(sum) - x would cancel.
  At<T>(loss, 0) = Store<T>((acc.max - at_label) + kernels::Log(acc.sum));
}

template <typename T>
void CrossEntropyGradLoop(const char* x, int64_t n, int64_t label, const char* gy, char* gx) {
  using C = Compute<T>;
  using Gather = LogSumExpGather<T>;
  typename Gather::Acc acc = Gather::Identity();
  Gather::Row(x, sizeof(T), n, 0, &acc);
  const C scale = Load(At<T>(gy, 0));
  const C factor = C(1) / acc.sum;
  const C max = acc.max;
  const T* const in = reinterpret_cast<const T*>(x);
  T* const out = reinterpret_cast<T*>(gx);
  InPieces(n, [=](int64_t begin, int64_t end) {
    CHX_INDEPENDENT
    for (int64_t i = begin; i < end; ++i) {
      out[i] = Store<T>(kernels::Exp(Load(in[i]) - max) * factor * scale);
    }
  });
  out[label] = Store<T>((kernels::Exp(Load(in[label]) - max) * factor - C(1)) * scale);
}

}  // namespace CHX_LOOPS_NAMESPACE
}  // namespace chx::server::native
