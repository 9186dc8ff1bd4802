// Reductions. A Gather<T> collects elements in accumulators (Acc). Sums are blocked: up to kBlock
// elements in kLanes partial sums of the computed type, the blocks' sums in double (float16,
// float32) or with compensation (float64). The error is below that of pairwise summation.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/reduce_ops.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/logsumexp.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

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
    if (stride != sizeof(T)) return StridedRow(x, stride, n, acc);
    const T* const dense = reinterpret_cast<const T*>(x);
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      Add(acc, FoldDense<kernels::Add>(dense + begin, count, Partial(0)));
    }
  }
  // Not inlined: its block would be in the way of short dense rows.
  __attribute__((noinline)) static void StridedRow(const char* x, int64_t stride, int64_t n,
                                                   Acc* acc) {
    T block[kBlock];
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      for (int64_t i = 0; i < count; ++i) block[i] = At<T>(x, (begin + i) * stride);
      Add(acc, FoldDense<kernels::Add>(block, count, Partial(0)));
    }
  }
  static void Columns(const char* x, int64_t row_stride, int64_t rows, int64_t n, int64_t,
                      Acc* accs) {
    constexpr int64_t kRows = 16;
    constexpr int64_t kColumns = 512;  // what is read of a row stays together
    for (int64_t column = 0; column < n; column += kColumns) {
      const int64_t last = n - column < kColumns ? n : column + kColumns;
      for (int64_t begin = 0; begin < rows; begin += kRows) {
        const int64_t count = rows - begin < kRows ? rows - begin : kRows;
        const char* const from = x + begin * row_stride;
        int64_t i = column;
        for (; i + kLanes <= last; i += kLanes) {
          Strip(from + i * sizeof(T), row_stride, count, kLanes, accs + i);
        }
        Strip(from + i * sizeof(T), row_stride, count, last - i, accs + i);
      }
    }
  }
  // Of up to kLanes columns, whose sums stay in registers.
  CHX_HD static void Strip(const char* x, int64_t row_stride, int64_t rows, int64_t n, Acc* accs) {
    Partial sums[kLanes] = {};
    for (int64_t row = 0; row < rows; ++row) {
      const T* const in = reinterpret_cast<const T*>(x + row * row_stride);
      for (int64_t i = 0; i < n; ++i) {
        sums[i] = kernels::Add()(sums[i], static_cast<Partial>(Load(in[i])));
      }
    }
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) Add(&accs[i], sums[i]);
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

template <template <typename> class Gather, typename... Ts>
void Fill(LoopSet* set, ReduceOp op, kernels::TypeList<Ts...>) {
  ReduceLoops* const row = set->reduce[static_cast<int>(op)];
  ((row[static_cast<int>(kernels::kDtypeOf<Ts>)] = MakeReduceLoops<Gather<Ts>>()), ...);
}

}  // namespace

void FillReduction(LoopSet* set) {
  Fill<SumGather>(set, ReduceOp::kSum, kernels::AllTypes());
  Fill<MaxGather>(set, ReduceOp::kMax, kernels::AllTypes());
  Fill<MinGather>(set, ReduceOp::kMin, kernels::AllTypes());
  Fill<ArgMaxGather>(set, ReduceOp::kArgMax, kernels::AllTypes());
  Fill<ArgMinGather>(set, ReduceOp::kArgMin, kernels::AllTypes());
  Fill<ProdGather>(set, ReduceOp::kProd, kernels::AllTypes());
  Fill<LogSumExpGather>(set, ReduceOp::kLogSumExp, kernels::FloatTypes());
}

}  // namespace chx::server::native::CHX_ISA
