// The Huber loss and its gradient, in the order of rounding of ops/defs/loss_elementwise.cc.
#include <cstdint>

#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/layer_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename C>
CHX_HD C Loss(C x1, C x2, C delta) {
  const C difference = x1 - x2;
  const C distance = difference < C(0) ? -difference : difference;
  return distance < delta ? difference * difference * C(0.5) : (distance - C(0.5) * delta) * delta;
}

template <typename C>
CHX_HD C Grad(C x1, C x2, C gy, C delta) {
  const C difference = x1 - x2;
  const C distance = difference < C(0) ? -difference : difference;
  return gy * (distance < delta ? difference : kernels::Sign()(difference) * delta);
}

// y, x1, x2, delta.
template <typename T>
void LossLoop(char* const* data, const int64_t* strides, int64_t n) {
  const Compute<T> delta = Load(At<T>(data[3], 0));
  if (strides[0] == sizeof(T) && strides[1] == sizeof(T) && strides[2] == sizeof(T)) {
    T* const y = reinterpret_cast<T*>(data[0]);
    const T* const x1 = reinterpret_cast<const T*>(data[1]);
    const T* const x2 = reinterpret_cast<const T*>(data[2]);
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[i] = Store<T>(Loss(Load(x1[i]), Load(x2[i]), delta));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    At<T>(data[0], i * strides[0]) = Store<T>(
        Loss(Load(At<T>(data[1], i * strides[1])), Load(At<T>(data[2], i * strides[2])), delta));
  }
}

// gx, x1, x2, gy, delta.
template <typename T>
void GradLoop(char* const* data, const int64_t* strides, int64_t n) {
  const Compute<T> delta = Load(At<T>(data[4], 0));
  if (strides[0] == sizeof(T) && strides[1] == sizeof(T) && strides[2] == sizeof(T) &&
      strides[3] % static_cast<int64_t>(sizeof(T)) == 0) {
    T* const gx = reinterpret_cast<T*>(data[0]);
    const T* const x1 = reinterpret_cast<const T*>(data[1]);
    const T* const x2 = reinterpret_cast<const T*>(data[2]);
    const T* const gy = reinterpret_cast<const T*>(data[3]);
    if (strides[3] == 0) {  // of a sum or a mean
      const Compute<T> same = Load(gy[0]);
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) gx[i] = Store<T>(Grad(Load(x1[i]), Load(x2[i]), same, delta));
      return;
    }
    const int64_t step = strides[3] / static_cast<int64_t>(sizeof(T));
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      gx[i] = Store<T>(Grad(Load(x1[i]), Load(x2[i]), Load(gy[i * step]), delta));
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    At<T>(data[0], i * strides[0]) =
        Store<T>(Grad(Load(At<T>(data[1], i * strides[1])), Load(At<T>(data[2], i * strides[2])),
                      Load(At<T>(data[3], i * strides[3])), delta));
  }
}

template <typename... Ts>
void FillHuber(LayerLoops* set, kernels::TypeList<Ts...>) {
  ((set->huber[static_cast<int>(kernels::kDtypeOf<Ts>)] = {LossLoop<Ts>, GradLoop<Ts>}), ...);
}

}  // namespace

void FillLossElementwise(LayerLoops* set) { FillHuber(set, kernels::TypeList<float, double>()); }

}  // namespace chx::server::native::CHX_ISA
