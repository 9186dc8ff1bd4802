// Casts, and the choice between two arrays.
#include "server/native/loops/elementwise_loops.h"
#include "server/native/loops/parts.h"

namespace chx::server::native::CHX_ISA {
namespace {

template <typename From, typename To>
struct CastTo {
  CHX_HD static To Call(const From& x) { return kernels::Cast<To>(x); }
};

template <int kSize>
struct BitsOfSize;
template <>
struct BitsOfSize<1> {
  using Type = uint8_t;
};
template <>
struct BitsOfSize<2> {
  using Type = uint16_t;
};
template <>
struct BitsOfSize<4> {
  using Type = uint32_t;
};
template <>
struct BitsOfSize<8> {
  using Type = uint64_t;
};

// Of dense operands, or of one element each of `a` or `b`.
template <bool kOneA, bool kOneB, typename T>
void DenseWhere(const kernels::Bool* condition, const T* a, const T* b, int64_t n, T* out) {
  const kernels::Where where;
  const T one_a = *a;
  const T one_b = *b;
  CHX_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    out[i] = where(Load(condition[i]), kOneA ? one_a : a[i], kOneB ? one_b : b[i]);
  }
}

template <typename T>
void WhereLoop(char* const* data, const int64_t* strides, int64_t n) {
  using kernels::Bool;
  char* const y = data[0];
  const int64_t sc = strides[1];
  const int64_t sa = strides[2];
  const int64_t sb = strides[3];
  constexpr int64_t kItem = sizeof(T);
  const auto is_dense = [](int64_t stride) { return stride == kItem || stride == 0; };
  if (strides[0] == kItem && sc == 1 && is_dense(sa) && is_dense(sb)) {
    const auto dense = sa == 0
                           ? (sb == 0 ? DenseWhere<true, true, T> : DenseWhere<true, false, T>)
                           : (sb == 0 ? DenseWhere<false, true, T> : DenseWhere<false, false, T>);
    dense(reinterpret_cast<const Bool*>(data[1]), reinterpret_cast<const T*>(data[2]),
          reinterpret_cast<const T*>(data[3]), n, reinterpret_cast<T*>(y));
  } else {
    const kernels::Where where;
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      At<T>(y, i * strides[0]) =
          where(Load(At<Bool>(data[1], i * sc)), At<T>(data[2], i * sa), At<T>(data[3], i * sb));
    }
  }
}

template <typename From, typename... Tos>
void FillCastsFrom(Loop* row, kernels::TypeList<Tos...>) {
  ((*row++ = UnaryLoop<CastTo<From, Tos>, From, Tos>), ...);
}

template <typename... Ts>
void FillCastTypes(LoopSet* set, kernels::TypeList<Ts...>) {
  (FillCastsFrom<Ts>(set->cast[static_cast<int>(kernels::kDtypeOf<Ts>)], kernels::AllTypes()), ...);
  ((set->where[static_cast<int>(kernels::kDtypeOf<Ts>)] =
        WhereLoop<typename BitsOfSize<sizeof(Ts)>::Type>),
   ...);
}

}  // namespace

void FillCasts(LoopSet* set) { FillCastTypes(set, kernels::AllTypes()); }

}  // namespace chx::server::native::CHX_ISA
