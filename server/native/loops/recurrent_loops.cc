// An LSTM's cell, one sample at a time. The gates of a sample are blocks of n elements: i, f, a, o.
#include <cstdint>

#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/fold.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename T>
struct Lstm {
  using C = Compute<T>;

  static void Cell(const void* x, const void* h, const void* c, int64_t n, void* c_next,
                   void* h_next) {
    const T* const from_x = static_cast<const T*>(x);
    const T* const from_h = static_cast<const T*>(h);
    const T* const before = static_cast<const T*>(c);
    T* const state = static_cast<T*>(c_next);
    T* const out = static_cast<T*>(h_next);
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t k = begin; k < end; ++k) {
        const C i = kernels::Sigmoid(Load(from_x[k]) + Load(from_h[k]));
        const C f = kernels::Sigmoid(Load(from_x[n + k]) + Load(from_h[n + k]));
        const C a = kernels::Tanh(Load(from_x[2 * n + k]) + Load(from_h[2 * n + k]));
        const C o = kernels::Sigmoid(Load(from_x[3 * n + k]) + Load(from_h[3 * n + k]));
        const C next = f * Load(before[k]) + i * a;
        state[k] = Store<T>(next);
        out[k] = Store<T>(o * kernels::Tanh(next));
      }
    });
  }

  // gz is the gradient of x and of h alike.
  static void Grad(const void* x, const void* h, const void* c, const void* gc, const void* gh,
                   int64_t n, void* gz, void* gc_before) {
    const T* const from_x = static_cast<const T*>(x);
    const T* const from_h = static_cast<const T*>(h);
    const T* const before = static_cast<const T*>(c);
    const T* const gstate = static_cast<const T*>(gc);
    const T* const gout = static_cast<const T*>(gh);
    T* const g = static_cast<T*>(gz);
    T* const gbefore = static_cast<T*>(gc_before);
    InPieces(n, [=](int64_t begin, int64_t end) {
      CHX_INDEPENDENT
      for (int64_t k = begin; k < end; ++k) {
        const C i = kernels::Sigmoid(Load(from_x[k]) + Load(from_h[k]));
        const C f = kernels::Sigmoid(Load(from_x[n + k]) + Load(from_h[n + k]));
        const C a = kernels::Tanh(Load(from_x[2 * n + k]) + Load(from_h[2 * n + k]));
        const C o = kernels::Sigmoid(Load(from_x[3 * n + k]) + Load(from_h[3 * n + k]));
        const C old = Load(before[k]);
        const C squashed = kernels::Tanh(f * old + i * a);
        const C gy = Load(gout[k]);
        const C total = Load(gstate[k]) + gy * o * (C(1) - squashed * squashed);
        g[k] = Store<T>(total * a * i * (C(1) - i));
        g[n + k] = Store<T>(total * old * f * (C(1) - f));
        g[2 * n + k] = Store<T>(total * i * (C(1) - a * a));
        g[3 * n + k] = Store<T>(gy * squashed * o * (C(1) - o));
        gbefore[k] = Store<T>(total * f);
      }
    });
  }

  static constexpr LstmLoops kLoops = {Cell, Grad};
};

template <typename... Ts>
void FillRecurrentTypes(LoopSet* set, kernels::TypeList<Ts...>) {
  ((set->lstm[static_cast<int>(kernels::kDtypeOf<Ts>)] = Lstm<Ts>::kLoops), ...);
}

}  // namespace

void FillRecurrent(LoopSet* set) { FillRecurrentTypes(set, kernels::FloatTypes()); }

}  // namespace chx::server::native::CHX_ISA
