// Parts of attention: the softmax of rows of scores that come some at a time.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "server/kernels/elementwise_fns.h"
#include "server/kernels/philox.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/logsumexp.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct Attention {
  static constexpr T kInf = std::numeric_limits<T>::infinity();

  // scores = scores * scale + mask.
  CHX_HD static void AddMask(T* scores, int64_t n, T scale, const AttentionMask& mask) {
    const T* const bias = static_cast<const T*>(mask.bias);
    const bool* const keep = mask.keep;
    if (bias != nullptr) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) scores[i] = scores[i] * scale + bias[i];
    } else if (keep != nullptr) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) scores[i] = keep[i] ? scores[i] * scale : -kInf;
    } else {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) scores[i] = scores[i] * scale;
    }
  }

  static double Weights(void* data, int64_t n, double scale, const AttentionMask& mask,
                        AttentionRow* row) {
    T* const scores = static_cast<T*>(data);
    // Without a mask scores are scaled on the way to their exponentials.
    const bool on_the_way =
        mask.bias == nullptr && mask.keep == nullptr && static_cast<T>(scale) > 0;
    if (!on_the_way) AddMask(scores, n, static_cast<T>(scale), mask);
    const T by = on_the_way ? static_cast<T>(scale) : T(1);
    const T before = static_cast<T>(row->max);
    const T max = kernels::Maximum()(before, FoldDense<kernels::Maximum>(scores, n, -kInf) * by);
    // A row without any score that counts so far has exponentials of zero.
    const T shift = max == -kInf ? T(0) : max;
    const T sum = SumOfExps(scores, n, by, shift, scores);
    const T factor = before == max ? T(1) : kernels::Exp(before - shift);
    row->max = static_cast<double>(max);
    row->sum = row->sum * static_cast<double>(factor) + static_cast<double>(sum);
    return static_cast<double>(factor);
  }

  static void Scale(void* data, int64_t n, double factor) {
    T* const x = static_cast<T*>(data);
    const T by = static_cast<T>(factor);
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) x[i] *= by;
  }

  static double Dot(const void* left, const void* right, int64_t n) {
    const T* const x = static_cast<const T*>(left);
    const T* const y = static_cast<const T*>(right);
    T lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l] * y[i + l];
    }
    double total = 0;
    for (; i < n; ++i) total += static_cast<double>(x[i] * y[i]);
    for (int l = 0; l < kLanes; ++l) total += static_cast<double>(lanes[l]);
    return total;
  }

  static void Grad(void* data, void* grads, int64_t n, double scale, const AttentionMask& mask,
                   double lse, double delta) {
    T* const scores = static_cast<T*>(data);
    T* const out = static_cast<T*>(grads);
    AddMask(scores, n, static_cast<T>(scale), mask);
    const T shift = static_cast<T>(lse);
    const T less = static_cast<T>(delta);
    const T by = static_cast<T>(scale);
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T weight = kernels::Exp(scores[i] - shift);
      scores[i] = weight;
      out[i] = weight * (out[i] - less) * by;
    }
  }

  static void Dropout(uint64_t seed, int64_t first, int64_t n, double p, void* out) {
    constexpr int64_t kBlocks = 16;
    constexpr int64_t kPerBlock = kernels::kPhiloxPerBlock<float>;
    T* const y = static_cast<T*>(out);
    const T kept = static_cast<T>(1 / (1 - p));
    const float below = static_cast<float>(p);
    float drawn[kBlocks * kPerBlock];
    for (int64_t block = first / kPerBlock; block * kPerBlock < first + n; block += kBlocks) {
      for (int64_t l = 0; l < kBlocks; ++l) {
        const kernels::PhiloxBlock bits = kernels::Philox(seed, static_cast<uint64_t>(block + l));
        for (int j = 0; j < kPerBlock; ++j) {
          drawn[l * kPerBlock + j] = kernels::PhiloxUnit<float, float>(bits, j);
        }
      }
      const int64_t start = block * kPerBlock;
      const int64_t end = std::min(first + n, start + kBlocks * kPerBlock);
      for (int64_t i = std::max(first, start); i < end; ++i) {
        y[i - first] = drawn[i - start] >= below ? kept : T(0);
      }
    }
  }

  static void Rotate(bool interleaved, const void* data, int64_t n, const void* cosines,
                     const void* sines, void* out) {
    const T* const x = static_cast<const T*>(data);
    const T* const cos = static_cast<const T*>(cosines);
    const T* const sin = static_cast<const T*>(sines);
    T* const y = static_cast<T*>(out);
    InPieces(n, [=](int64_t begin, int64_t end) {
      if (interleaved) {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          const T a = x[2 * i];
          const T b = x[2 * i + 1];
          y[2 * i] = a * cos[i] - b * sin[i];
          y[2 * i + 1] = b * cos[i] + a * sin[i];
        }
      } else {
        CHX_INDEPENDENT
        for (int64_t i = begin; i < end; ++i) {
          const T a = x[i];
          const T b = x[n + i];
          y[i] = a * cos[i] - b * sin[i];
          y[n + i] = b * cos[i] + a * sin[i];
        }
      }
    });
  }

  static constexpr AttentionLoops kLoops = {Weights, Scale, Dot, Grad, Dropout, Rotate};
};

}  // namespace

void FillAttention(LayerLoops* set) {
  set->attention[static_cast<int>(Dtype::kFloat32)] = Attention<float>::kLoops;
  set->attention[static_cast<int>(Dtype::kFloat64)] = Attention<double>::kLoops;
}

}  // namespace chx::server::native::CHX_ISA
