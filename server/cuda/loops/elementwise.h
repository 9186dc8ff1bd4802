// Launches of elementwise formulas on operands of any layout.
#ifndef CHX_SERVER_CUDA_LOOPS_ELEMENTWISE_H_
#define CHX_SERVER_CUDA_LOOPS_ELEMENTWISE_H_

#include <cstdint>
#include <utility>

#include "server/cuda/loops/device_nest.h"
#include "server/cuda/loops/launch.h"
#include "server/kernels/dispatch.h"
#include "server/kernels/indexer.h"
#include "server/kernels/types.h"

namespace chx::server::cuda {

// Several elements that are loaded and stored together.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T elements[kCount];
};

// An array, or a scalar by value.
template <typename T>
struct ScalarOrArray {
  const char* data = nullptr;  // null: a scalar
  T value;
  // Of an array in packs: whether a pack is one element, repeated.
  bool repeated = false;

  CHX_HD T At(int64_t offset) const {
    return data == nullptr ? value : *reinterpret_cast<const T*>(data + offset);
  }
  template <int kCount>
  CHX_HD Pack<T, kCount> PackAt(int64_t offset) const {
    if (data != nullptr && !repeated) {
      return *reinterpret_cast<const Pack<T, kCount>*>(data + offset);
    }
    Pack<T, kCount> pack;
    const T element = At(offset);
    CHX_UNROLL
    for (int j = 0; j < kCount; ++j) pack.elements[j] = element;
    return pack;
  }
  // Between neighbours in a pack.
  CHX_HD int64_t step() const { return repeated ? 0 : static_cast<int64_t>(sizeof(T)); }
};

template <typename T>
ScalarOrArray<T> ScalarOrArrayOf(const KernelTensor& tensor) {
  ScalarOrArray<T> operand;
  operand.data = tensor.data;
  operand.value = tensor.is_scalar ? kernels::ScalarAs<T>(tensor.scalar) : T();
  return operand;
}

// At most 16 bytes, and few enough elements that the loop over them is unrolled.
template <typename... Ts>
inline constexpr int kPackSize = ((sizeof(Ts) == 8) || ...) ? 2 : 4;

// The operands of a formula, plain data: operand I is the base of type OperandAt<I, T>.
template <size_t I, typename T>
struct OperandAt {
  ScalarOrArray<T> operand;
};
template <typename Indices, typename... Ins>
struct OperandList;
template <size_t... Is, typename... Ins>
struct OperandList<std::index_sequence<Is...>, Ins...> : OperandAt<Is, Ins>... {
  static constexpr int kCount = 1 + static_cast<int>(sizeof...(Ins));  // with the output
  template <typename Out>
  static constexpr int kPack = kPackSize<Out, Ins...>;

  explicit OperandList(const ScalarOrArray<Ins>&... operands) : OperandAt<Is, Ins>{operands}... {}

  // at[0] is the output's offset.
  template <typename F, typename Out>
  CHX_HD void Call(char* out, const int64_t* at) const {
    *reinterpret_cast<Out*>(out + at[0]) = F::Call(OperandAt<Is, Ins>::operand.At(at[1 + Is])...);
  }
  template <typename F, typename Out, int kCount>
  CHX_HD void CallPack(char* out, const int64_t* at) const {
    *reinterpret_cast<Pack<Out, kCount>*>(out + at[0]) =
        OfPacks<F, Out, kCount>(OperandAt<Is, Ins>::operand.template PackAt<kCount>(at[1 + Is])...);
  }
  // Moves the offsets to the next element of a pack.
  CHX_HD void Advance(int64_t* at) const {
    ((at[1 + Is] += OperandAt<Is, Ins>::operand.step()), ...);
  }
  // Sets which operands are repeated in packs.
  void SetRepeated(const bool* repeated) {
    ((OperandAt<Is, Ins>::operand.repeated = repeated[1 + Is]), ...);
  }

 private:
  template <typename F, typename Out, int kCount>
  CHX_HD static Pack<Out, kCount> OfPacks(const Pack<Ins, kCount>&... packs) {
    Pack<Out, kCount> result;
    CHX_UNROLL
    for (int j = 0; j < kCount; ++j) result.elements[j] = F::Call(packs.elements[j]...);
    return result;
  }
};
template <typename... Ins>
using Operands = OperandList<std::index_sequence_for<Ins...>, Ins...>;

// F has a static Call from the operands' stored types to Out. In is an Operands.
template <typename F, typename Out, typename In>
struct StridedBody {
  DeviceNest<In::kCount> nest;
  char* out;
  In in;

  CHX_HD void operator()(int64_t i) const {
    int64_t at[In::kCount];
    nest.Offsets(i, at);
    in.template Call<F, Out>(out, at);
  }
};

// The same with packs along the innermost dimension of a narrow nest.
template <typename F, typename Out, typename In>
struct PackedBody {
  static constexpr int kPack = In::template kPack<Out>;
  DeviceNest<In::kCount> nest;  // over packs
  char* out;
  In in;
  int64_t size;  // elements; the last pack may be of fewer

  CHX_HD void operator()(int64_t i) const {
    int64_t at[In::kCount];
    nest.NarrowOffsets(i, at);
    if ((i + 1) * kPack <= size) {
      in.template CallPack<F, Out, kPack>(out, at);
      return;
    }
#ifdef __CUDA_ARCH__
#pragma unroll 1
#endif
    for (int64_t j = i * kPack; j < size; ++j) {
      in.template Call<F, Out>(out, at);
      at[0] += static_cast<int64_t>(sizeof(Out));
      in.Advance(at);
    }
  }
};

// How the operands are walked: the output, then the inputs.
template <int N>
struct ElementwisePlan {
  DeviceNest<N> nest;
  bool packed = false;  // whether the nest is over packs
  bool repeated[N] = {};
};

// Turns a nest over elements into one over packs of `count` along its innermost dimension. Every
// input has to be dense along it, or `repeated` there; the output dense. All that is dense is
// aligned to packs.
template <int N>
bool ToPacks(const KernelTensor* const (&tensors)[N], int count, kernels::LoopNest<N>* nest,
             bool (&repeated)[N]) {
  const int inner = nest->ndim - 1;
  // Other rows begin with a pack, so only one row may end with a part of one.
  if (inner > 0 && nest->shape[inner] % count != 0) return false;
  for (int k = 0; k < N; ++k) {
    const int64_t item_size = ItemSize(tensors[k]->dtype);
    const int64_t stride = inner < 0 ? item_size : nest->strides[k][inner];
    repeated[k] = k > 0 && (stride == 0 || tensors[k]->is_scalar);
    if (repeated[k]) continue;
    const int64_t bytes = item_size * count;
    bool fits = stride == item_size &&
                reinterpret_cast<uintptr_t>(tensors[k]->data) % static_cast<uintptr_t>(bytes) == 0;
    for (int d = 0; d < inner; ++d) fits &= nest->strides[k][d] % bytes == 0;
    if (!fits) return false;
  }
  nest->size = (nest->size + count - 1) / count;
  if (inner < 0) return true;
  nest->shape[inner] = (nest->shape[inner] + count - 1) / count;
  for (int k = 0; k < N; ++k) nest->strides[k][inner] *= count;
  return true;
}

// `pack`: how many elements are in one; 0 for no packs.
template <int N>
ElementwisePlan<N> PlanElementwise(const KernelTensor* const (&tensors)[N], int pack) {
  const Shape& shape = tensors[0]->shape;
  const Strides zeros(shape.size(), 0);
  const Strides* strides[N];
  for (int k = 0; k < N; ++k) strides[k] = tensors[k]->is_scalar ? &zeros : &tensors[k]->strides;
  const auto nest = kernels::MakeLoopNest<N>(shape, strides);
  ElementwisePlan<N> plan;
  auto packs = nest;
  if (pack > 0 && ToPacks(tensors, pack, &packs, plan.repeated)) {
    plan.nest = DeviceNest<N>(packs);
    plan.packed = plan.nest.narrow();
  }
  if (!plan.packed) plan.nest = DeviceNest<N>(nest);
  return plan;
}

// out = F::Call(in...), whose operands are of tensors[0] (the output) and the others, which have
// its shape. kPacked makes a second kernel for packs; it is not worth its size if the formula takes
// longer than the access to memory.
template <typename F, bool kPacked, typename Out, typename In>
absl::Status RunOperands(const KernelArgs& args, const KernelTensor* const (&tensors)[In::kCount],
                         In in) {
  const int64_t size = tensors[0]->size();
  if (size == 0) return absl::OkStatus();
  char* const out = tensors[0]->data;
  const ElementwisePlan<In::kCount> plan =
      PlanElementwise(tensors, kPacked ? In::template kPack<Out> : 0);
  if constexpr (kPacked) {
    if (plan.packed) {
      in.SetRepeated(plan.repeated);
      return ForEach(args, plan.nest.size(), PackedBody<F, Out, In>{plan.nest, out, in, size});
    }
  }
  return ForEach(args, size, StridedBody<F, Out, In>{plan.nest, out, in});
}

template <typename F, bool kPacked, typename Out, typename A>
absl::Status RunElementwise(const KernelArgs& args, const KernelTensor& out,
                            const KernelTensor& a) {
  return RunOperands<F, kPacked, Out>(args, {&out, &a}, Operands<A>(ScalarOrArrayOf<A>(a)));
}

template <typename F, bool kPacked, typename Out, typename A, typename B>
absl::Status RunElementwise(const KernelArgs& args, const KernelTensor& out, const KernelTensor& a,
                            const KernelTensor& b) {
  return RunOperands<F, kPacked, Out>(args, {&out, &a, &b},
                                      Operands<A, B>(ScalarOrArrayOf<A>(a), ScalarOrArrayOf<B>(b)));
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
