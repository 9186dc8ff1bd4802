// Softmax: one pass for the largest element, one for the exponentials and their sum, one to scale.
// A row of usual length stays in the cache between them.
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/logsumexp.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct Softmax {
  using C = Compute<T>;
  // Exponentials wait in the result for their sum, unless it would round them.
  static constexpr bool kExact = std::is_same<T, C>::value;

  // Where the largest element is infinite or NaN the sum does not count, as in logsumexp.
  CHX_HD static bool Finite(C max) { return std::fabs(max) <= std::numeric_limits<C>::max(); }

  static void Row(bool log, const void* x, int64_t n, void* y) {
    const T* const in = static_cast<const T*>(x);
    T* const out = static_cast<T*>(y);
    C max = -std::numeric_limits<C>::infinity();
    for (int64_t begin = 0; begin < n; begin += kPiece) {
      if (StopBefore(begin)) return;
      const int64_t count = n - begin < kPiece ? n - begin : kPiece;
      max = kernels::Maximum()(max, FoldDense<kernels::Maximum>(in + begin, count, max));
    }
    const bool keep = kExact && !log;
    double sum = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      if (StopBefore(begin)) return;
      C block[kBlock];
      C* exps = block;
      if constexpr (kExact) exps = keep ? out + begin : block;
      sum += static_cast<double>(SumOfExps(in + begin, count, C(1), max, exps));
    }
    if (!Finite(max)) sum = 1;
    if (log) {
      const C shift = kernels::Log(static_cast<C>(sum));
      InPieces(n, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] = Store<T>((Load(in[i]) - max) - shift);
      });
      return;
    }
    const C factor = static_cast<C>(1 / sum);
    InPieces(n, [=](int64_t begin, int64_t end) {
      if (keep) {
        for (int64_t i = begin; i < end; ++i) out[i] = Store<T>(Load(out[i]) * factor);
      } else {
        for (int64_t i = begin; i < end; ++i) {
          out[i] = Store<T>(kernels::Exp(Load(in[i]) - max) * factor);
        }
      }
    });
  }

  // Of up to kColumns columns; `after` elements from one row to the next.
  static constexpr int64_t kColumns = 256;
  static void Columns(bool log, const void* x, int64_t rows, int64_t after, int64_t n, void* y) {
    constexpr int64_t kRows = 32;
    const T* const in = static_cast<const T*>(x);
    T* const out = static_cast<T*>(y);
    C max[kColumns];
    C part[kColumns];
    double sum[kColumns];
    C last[kColumns];  // the factor, or what is subtracted
    for (int64_t i = 0; i < n; ++i) max[i] = -std::numeric_limits<C>::infinity();
    for (int64_t row = 0; row < rows; ++row) {
      if (StopBefore(row * kColumns)) return;
      const T* const from = in + row * after;
      for (int64_t i = 0; i < n; ++i) max[i] = kernels::Maximum()(max[i], Load(from[i]));
    }
    for (int64_t i = 0; i < n; ++i) sum[i] = 0;
    for (int64_t begin = 0; begin < rows; begin += kRows) {
      if (StopBefore(begin * kColumns)) return;
      const int64_t end = rows - begin < kRows ? rows : begin + kRows;
      for (int64_t i = 0; i < n; ++i) part[i] = C(0);
      for (int64_t row = begin; row < end; ++row) {
        const T* const from = in + row * after;
        for (int64_t i = 0; i < n; ++i) part[i] += kernels::Exp(Load(from[i]) - max[i]);
      }
      for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<double>(part[i]);
    }
    for (int64_t i = 0; i < n; ++i) {
      const double total = Finite(max[i]) ? sum[i] : 1.0;
      last[i] = log ? kernels::Log(static_cast<C>(total)) : static_cast<C>(1 / total);
    }
    for (int64_t row = 0; row < rows; ++row) {
      if (StopBefore(row * kColumns)) return;
      const T* const from = in + row * after;
      T* const to = out + row * after;
      if (log) {
        for (int64_t i = 0; i < n; ++i) to[i] = Store<T>((Load(from[i]) - max[i]) - last[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) {
          to[i] = Store<T>(kernels::Exp(Load(from[i]) - max[i]) * last[i]);
        }
      }
    }
  }

  static void GradRow(bool log, const void* y, const void* gy, int64_t n, void* gx) {
    const T* const result = static_cast<const T*>(y);
    const T* const grad = static_cast<const T*>(gy);
    T* const out = static_cast<T*>(gx);
    double total = 0;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      const int64_t count = n - begin < kBlock ? n - begin : kBlock;
      if (StopBefore(begin)) return;
      C block[kBlock];
      for (int64_t i = 0; i < count; ++i) {
        const C g = Load(grad[begin + i]);
        block[i] = log ? g : g * Load(result[begin + i]);
      }
      total += static_cast<double>(FoldDense<kernels::Add>(block, count, C(0)));
    }
    const C sum = static_cast<C>(total);
    InPieces(n, [=](int64_t begin, int64_t end) {
      if (log) {
        for (int64_t i = begin; i < end; ++i) {
          out[i] = Store<T>(Load(grad[i]) - kernels::Exp(Load(result[i])) * sum);
        }
      } else {
        for (int64_t i = begin; i < end; ++i) {
          out[i] = Store<T>(Load(result[i]) * (Load(grad[i]) - sum));
        }
      }
    });
  }

  static constexpr SoftmaxLoops kLoops = {Row, kColumns, Columns, GradRow};
};

template <typename... Ts>
void FillSoftmaxTypes(LoopSet* set, kernels::TypeList<Ts...>) {
  ((set->softmax[static_cast<int>(kernels::kDtypeOf<Ts>)] = Softmax<Ts>::kLoops), ...);
}

}  // namespace

void FillSoftmax(LoopSet* set) { FillSoftmaxTypes(set, kernels::FloatTypes()); }

}  // namespace chx::server::native::CHX_ISA
