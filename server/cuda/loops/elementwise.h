// Launches of elementwise formulas on operands of any layout.
#ifndef CHX_SERVER_CUDA_LOOPS_ELEMENTWISE_H_
#define CHX_SERVER_CUDA_LOOPS_ELEMENTWISE_H_

#include <cstdint>

#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/indexer.h"
#include "server/kernels/types.h"

namespace chx::server::cuda {

// An array, or a scalar by value.
template <typename T>
struct ScalarOrArray {
  const char* data = nullptr;  // null: a scalar
  T value;

  CHX_HD T At(int64_t offset) const {
    return data == nullptr ? value : *reinterpret_cast<const T*>(data + offset);
  }
};

template <typename T>
ScalarOrArray<T> ScalarOrArrayOf(const KernelTensor& tensor) {
  ScalarOrArray<T> operand;
  operand.data = tensor.data;
  operand.value = tensor.is_scalar ? kernels::ScalarAs<T>(tensor.scalar) : T();
  return operand;
}

// Several elements that are loaded and stored together.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T elements[kCount];
};

template <typename T, int kCount>
CHX_HD Pack<T, kCount> LoadPack(const ScalarOrArray<T>& operand, int64_t i) {
  if (operand.data != nullptr) return reinterpret_cast<const Pack<T, kCount>*>(operand.data)[i];
  Pack<T, kCount> pack;
  CHX_UNROLL
  for (int j = 0; j < kCount; ++j) pack.elements[j] = operand.value;
  return pack;
}

// F has a static Call from the operands' stored types to Out. In the bodies that follow, "packed"
// means that the output and all arrays are dense and aligned to packs.
template <typename F, typename Out, typename... Ins>
struct StridedBody;
template <typename F, typename Out, typename... Ins>
struct PackedBody;

// At most 16 bytes, and few enough elements that the loop over them is unrolled.
template <typename Out, typename In>
inline constexpr int kPackSize = sizeof(In) == 8 || sizeof(Out) == 8 ? 2 : 4;

template <typename F, typename Out, typename A>
struct StridedBody<F, Out, A> {
  DeviceNest<2> nest;
  char* out;
  ScalarOrArray<A> a;

  CHX_HD void operator()(int64_t i) const {
    int64_t at[2];
    nest.Offsets(i, at);
    *reinterpret_cast<Out*>(out + at[0]) = F::Call(a.At(at[1]));
  }
};

template <typename F, typename Out, typename A, typename B>
struct StridedBody<F, Out, A, B> {
  DeviceNest<3> nest;
  char* out;
  ScalarOrArray<A> a;
  ScalarOrArray<B> b;

  CHX_HD void operator()(int64_t i) const {
    int64_t at[3];
    nest.Offsets(i, at);
    *reinterpret_cast<Out*>(out + at[0]) = F::Call(a.At(at[1]), b.At(at[2]));
  }
};

template <typename F, typename Out, typename A, typename B, typename C>
struct StridedBody<F, Out, A, B, C> {
  DeviceNest<4> nest;
  char* out;
  ScalarOrArray<A> a;
  ScalarOrArray<B> b;
  ScalarOrArray<C> c;

  CHX_HD void operator()(int64_t i) const {
    int64_t at[4];
    nest.Offsets(i, at);
    *reinterpret_cast<Out*>(out + at[0]) = F::Call(a.At(at[1]), b.At(at[2]), c.At(at[3]));
  }
};

template <typename F, typename Out, typename A>
struct PackedBody<F, Out, A> {
  static constexpr int kCount = kPackSize<Out, A>;
  char* out;
  ScalarOrArray<A> a;
  int64_t size;

  CHX_HD void operator()(int64_t i) const {
    if ((i + 1) * kCount <= size) {
      const Pack<A, kCount> pa = LoadPack<A, kCount>(a, i);
      Pack<Out, kCount> result;
      CHX_UNROLL
      for (int j = 0; j < kCount; ++j) result.elements[j] = F::Call(pa.elements[j]);
      reinterpret_cast<Pack<Out, kCount>*>(out)[i] = result;
      return;
    }
    for (int64_t j = i * kCount; j < size; ++j) {
      reinterpret_cast<Out*>(out)[j] = F::Call(a.At(j * static_cast<int64_t>(sizeof(A))));
    }
  }
};

template <typename F, typename Out, typename A, typename B>
struct PackedBody<F, Out, A, B> {
  static constexpr int kCount = kPackSize<Out, A>;
  char* out;
  ScalarOrArray<A> a;
  ScalarOrArray<B> b;
  int64_t size;

  CHX_HD void operator()(int64_t i) const {
    if ((i + 1) * kCount <= size) {
      const Pack<A, kCount> pa = LoadPack<A, kCount>(a, i);
      const Pack<B, kCount> pb = LoadPack<B, kCount>(b, i);
      Pack<Out, kCount> result;
      CHX_UNROLL
      for (int j = 0; j < kCount; ++j) {
        result.elements[j] = F::Call(pa.elements[j], pb.elements[j]);
      }
      reinterpret_cast<Pack<Out, kCount>*>(out)[i] = result;
      return;
    }
    for (int64_t j = i * kCount; j < size; ++j) {
      reinterpret_cast<Out*>(out)[j] = F::Call(a.At(j * static_cast<int64_t>(sizeof(A))),
                                               b.At(j * static_cast<int64_t>(sizeof(B))));
    }
  }
};

// Whether packs of `count` elements can be moved between memory and registers.
inline bool Packs(const KernelTensor& tensor, const Shape& shape, int count) {
  if (tensor.is_scalar) return true;
  const int64_t item_size = ItemSize(tensor.dtype);
  return kernels::IsContiguous(shape, tensor.strides, item_size) &&
         reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(item_size * count) == 0;
}

template <size_t kInputs>
DeviceNest<1 + static_cast<int>(kInputs)> NestOf(const KernelTensor& out,
                                                 const KernelTensor* const (&in)[kInputs]) {
  constexpr int kOperands = 1 + static_cast<int>(kInputs);
  const Strides zeros(out.ndim(), 0);
  const Strides* strides[kOperands];
  strides[0] = &out.strides;
  for (size_t k = 0; k < kInputs; ++k) strides[k + 1] = in[k]->is_scalar ? &zeros : &in[k]->strides;
  return DeviceNest<kOperands>(kernels::MakeLoopNest<kOperands>(out.shape, strides));
}

// out = F::Call(a, ...). Array operands have the output's shape. kPacked makes a second kernel for
// dense operands; it is not worth its size if the formula takes longer than the access to memory.
template <typename F, bool kPacked, typename Out, typename A>
absl::Status RunElementwise(const KernelArgs& args, const KernelTensor& out,
                            const KernelTensor& a) {
  const int64_t size = out.size();
  if (size == 0) return absl::OkStatus();
  if constexpr (kPacked) {
    using Body = PackedBody<F, Out, A>;
    if (Packs(out, out.shape, Body::kCount) && Packs(a, out.shape, Body::kCount)) {
      return ForEach(args, (size + Body::kCount - 1) / Body::kCount,
                     Body{out.data, ScalarOrArrayOf<A>(a), size});
    }
  }
  const KernelTensor* const in[1] = {&a};
  return ForEach(args, size,
                 StridedBody<F, Out, A>{NestOf(out, in), out.data, ScalarOrArrayOf<A>(a)});
}

template <typename F, bool kPacked, typename Out, typename A, typename B>
absl::Status RunElementwise(const KernelArgs& args, const KernelTensor& out, const KernelTensor& a,
                            const KernelTensor& b) {
  const int64_t size = out.size();
  if (size == 0) return absl::OkStatus();
  if constexpr (kPacked) {
    using Body = PackedBody<F, Out, A, B>;
    if (Packs(out, out.shape, Body::kCount) && Packs(a, out.shape, Body::kCount) &&
        Packs(b, out.shape, Body::kCount)) {
      return ForEach(args, (size + Body::kCount - 1) / Body::kCount,
                     Body{out.data, ScalarOrArrayOf<A>(a), ScalarOrArrayOf<B>(b), size});
    }
  }
  const KernelTensor* const in[2] = {&a, &b};
  return ForEach(args, size,
                 StridedBody<F, Out, A, B>{NestOf(out, in), out.data, ScalarOrArrayOf<A>(a),
                                           ScalarOrArrayOf<B>(b)});
}

// A formula of elementwise_fns.h as a function of stored types.
template <typename Fn, typename Out>
struct OfStored {
  template <typename... Ts>
  CHX_HD static Out Call(const Ts&... operands) {
    return kernels::Store<Out>(Fn()(kernels::Load(operands)...));
  }
};

}  // namespace chx::server::cuda

#endif  // CHX_SERVER_CUDA_LOOPS_ELEMENTWISE_H_
