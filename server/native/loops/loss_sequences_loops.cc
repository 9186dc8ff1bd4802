// Connectionist temporal classification.
#include <cstdint>

#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct Ctc {
  static void Step(const void* a, const void* b, const void* c, const void* skip,
                   const void* emission, int64_t n, void* y) {
    const T* const stays = static_cast<const T*>(a);
    const T* const moves = static_cast<const T*>(b);
    const T* const skips = static_cast<const T*>(c);
    const T* const allowed = static_cast<const T*>(skip);
    const T* const symbol = static_cast<const T*>(emission);
    T* const out = static_cast<T*>(y);
    InPieces(n, [=](int64_t begin, int64_t end) {
      T max[kBlock];
      T sum[kBlock];
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t count = end - first < kBlock ? end - first : kBlock;
        // In parts that vectorise.
        for (int64_t i = 0; i < count; ++i) {
          max[i] = kernels::Maximum()(stays[first + i], moves[first + i]);
        }
        for (int64_t i = 0; i < count; ++i) {
          const T skipped = skips[first + i] + allowed[first + i];
          max[i] = kernels::Maximum()(max[i], skipped);
        }
        for (int64_t i = 0; i < count; ++i) {
          const T skipped = skips[first + i] + allowed[first + i];
          sum[i] = kernels::Exp(stays[first + i] - max[i]) +
                   kernels::Exp(moves[first + i] - max[i]) + kernels::Exp(skipped - max[i]);
        }
        CHX_INDEPENDENT
        for (int64_t i = 0; i < count; ++i) {
          out[first + i] = max[i] + kernels::Log(sum[i]) + symbol[first + i];
        }
      }
    });
  }

  static void Share(const void* alpha, const void* beta, const void* emission, int64_t n,
                    double loss, double factor, void* y) {
    const T* const before = static_cast<const T*>(alpha);
    const T* const after = static_cast<const T*>(beta);
    const T* const symbol = static_cast<const T*>(emission);
    const T total = static_cast<T>(loss);
    const T scale = static_cast<T>(factor);
    T* const out = static_cast<T*>(y);
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) {
        out[i] = kernels::Exp(before[i] + (after[i] - symbol[i]) + total) * scale;
      }
    });
  }

  static constexpr CtcLoops kLoops = {Step, Share};
};

}  // namespace

void FillLossSequences(LayerLoops* set) {
  set->ctc[static_cast<int>(Dtype::kFloat32)] = Ctc<float>::kLoops;
  set->ctc[static_cast<int>(Dtype::kFloat64)] = Ctc<double>::kLoops;
}

}  // namespace chx::server::native::CHX_ISA
