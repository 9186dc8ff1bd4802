// The elementwise part of loops.inc.
#include <cstdint>

#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/kernels/types.h"
#include "server/native/loops.h"

// Promises that iterations are independent: an output is exactly an input or apart from it. Without
// the promise the compiler's own overlap check would send in-place calls to scalar code.
#if defined(__clang__)
#define CHX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define CHX_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace chx::server::native {
namespace CHX_LOOPS_NAMESPACE {

using kernels::Compute;
using kernels::Load;
using kernels::Store;

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

template <typename T>
CHX_HD const T& At(const char* data, int64_t offset) {
  return *reinterpret_cast<const T*>(data + offset);
}
template <typename T>
CHX_HD T& At(char* data, int64_t offset) {
  return *reinterpret_cast<T*>(data + offset);
}

// The formulas as functions of stored types.
template <typename Fn, typename T, typename Out>
struct OfStored {
  CHX_HD static Out Call(const T& x) { return Store<Out>(Fn()(Load(x))); }
  CHX_HD static Out Call(const T& x, const T& y) { return Store<Out>(Fn()(Load(x), Load(y))); }
};
template <typename From, typename To>
struct CastTo {
  CHX_HD static To Call(const From& x) { return kernels::Cast<To>(x); }
};

template <typename F, typename T, typename Out>
void UnaryLoop(char* const* data, const int64_t* strides, int64_t n) {
  char* const y = data[0];
  const char* const x = data[1];
  const int64_t sy = strides[0];
  const int64_t sx = strides[1];
  if (sy == sizeof(Out) && sx == sizeof(T)) {
    Out* const out = reinterpret_cast<Out*>(y);
    const T* const in = reinterpret_cast<const T*>(x);
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = F::Call(in[i]);
  } else if (sy == sizeof(Out) && sx == 0) {
    Out* const out = reinterpret_cast<Out*>(y);
    const Out value = F::Call(At<T>(x, 0));
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  } else {
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) At<Out>(y, i * sy) = F::Call(At<T>(x, i * sx));
  }
}

template <typename F, typename T, typename Out>
void BinaryLoop(char* const* data, const int64_t* strides, int64_t n) {
  char* const y = data[0];
  const char* const a = data[1];
  const char* const b = data[2];
  const int64_t sy = strides[0];
  const int64_t sa = strides[1];
  const int64_t sb = strides[2];
  constexpr int64_t kItem = sizeof(T);
  if (sy == sizeof(Out) && (sa == kItem || sa == 0) && (sb == kItem || sb == 0)) {
    Out* const out = reinterpret_cast<Out*>(y);
    const T* const in_a = reinterpret_cast<const T*>(a);
    const T* const in_b = reinterpret_cast<const T*>(b);
    if (sa == kItem && sb == kItem) {
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = F::Call(in_a[i], in_b[i]);
    } else if (sa == kItem) {
      const T value = *in_b;
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = F::Call(in_a[i], value);
    } else if (sb == kItem) {
      const T value = *in_a;
      CHX_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) out[i] = F::Call(value, in_b[i]);
    } else {
      const Out value = F::Call(*in_a, *in_b);
      for (int64_t i = 0; i < n; ++i) out[i] = value;
    }
  } else {
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      At<Out>(y, i * sy) = F::Call(At<T>(a, i * sa), At<T>(b, i * sb));
    }
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
  const kernels::Where where;
  if (strides[0] == kItem && sc == 1 && sa == kItem && sb == kItem) {
    T* const out = reinterpret_cast<T*>(y);
    const Bool* const condition = reinterpret_cast<const Bool*>(data[1]);
    const T* const in_a = reinterpret_cast<const T*>(data[2]);
    const T* const in_b = reinterpret_cast<const T*>(data[3]);
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) out[i] = where(Load(condition[i]), in_a[i], in_b[i]);
  } else {
    CHX_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      At<T>(y, i * strides[0]) =
          where(Load(At<Bool>(data[1], i * sc)), At<T>(data[2], i * sa), At<T>(data[3], i * sb));
    }
  }
}

// Formulas with a usual case (elementwise_fns.h), block by block: where it holds for all elements
// of a block, without branches. Per element the result is the same in either loop.
inline constexpr int64_t kUsualBlock = 512;

template <typename T>
CHX_HD void LoadBlock(const char* x, int64_t stride, int64_t n, float* block) {
  if (stride == sizeof(T)) {
    const T* const in = reinterpret_cast<const T*>(x);
    for (int64_t i = 0; i < n; ++i) block[i] = Load(in[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) block[i] = Load(At<T>(x, i * stride));
  }
}
template <typename T>
CHX_HD void StoreBlock(const float* block, int64_t n, char* y, int64_t stride) {
  if (stride == sizeof(T)) {
    T* const out = reinterpret_cast<T*>(y);
    for (int64_t i = 0; i < n; ++i) out[i] = Store<T>(block[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) At<T>(y, i * stride) = Store<T>(block[i]);
  }
}

template <typename Fn, typename T>
void UsualUnaryLoop(char* const* data, const int64_t* strides, int64_t n) {
  using Usual = kernels::UsualCase<Fn>;
  float x[kUsualBlock];
  for (int64_t begin = 0; begin < n; begin += kUsualBlock) {
    const int64_t count = n - begin < kUsualBlock ? n - begin : kUsualBlock;
    LoadBlock<T>(data[1] + begin * strides[1], strides[1], count, x);
    uint32_t unusual = 0;
    for (int64_t i = 0; i < count; ++i) unusual |= Usual::Holds(x[i]) ? 0 : 1;
    if (unusual == 0) {
      for (int64_t i = 0; i < count; ++i) x[i] = Usual::Call(x[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) x[i] = Fn()(x[i]);
    }
    StoreBlock<T>(x, count, data[0] + begin * strides[0], strides[0]);
  }
}

template <typename Fn, typename T>
void UsualBinaryLoop(char* const* data, const int64_t* strides, int64_t n) {
  using Usual = kernels::UsualCase<Fn>;
  float x[kUsualBlock];
  float y[kUsualBlock];
  for (int64_t begin = 0; begin < n; begin += kUsualBlock) {
    const int64_t count = n - begin < kUsualBlock ? n - begin : kUsualBlock;
    LoadBlock<T>(data[1] + begin * strides[1], strides[1], count, x);
    LoadBlock<T>(data[2] + begin * strides[2], strides[2], count, y);
    uint32_t unusual = 0;
    for (int64_t i = 0; i < count; ++i) unusual |= Usual::Holds(x[i], y[i]) ? 0 : 1;
    if (unusual == 0) {
      for (int64_t i = 0; i < count; ++i) x[i] = Usual::Call(x[i], y[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) x[i] = Fn()(x[i], y[i]);
    }
    StoreBlock<T>(x, count, data[0] + begin * strides[0], strides[0]);
  }
}

template <typename Fn, typename T>
inline constexpr bool kHasUsualCase =
    kernels::UsualCase<Fn>::kExists&& std::is_same<Compute<T>, float>::value;

template <typename Fn, typename T>
constexpr Loop UnarySameLoop() {
  if constexpr (kHasUsualCase<Fn, T>) {
    return UsualUnaryLoop<Fn, T>;
  } else {
    return UnaryLoop<OfStored<Fn, T, T>, T, T>;
  }
}
template <typename Fn, typename T>
constexpr Loop BinarySameLoop() {
  if constexpr (kHasUsualCase<Fn, T>) {
    return UsualBinaryLoop<Fn, T>;
  } else {
    return BinaryLoop<OfStored<Fn, T, T>, T, T>;
  }
}

// As template-template arguments for the tables: a formula and a type give a loop.
template <typename Fn, typename T>
struct UnarySame {
  static constexpr Loop Run = UnarySameLoop<Fn, T>();
};
template <typename Fn, typename T>
struct UnaryToBool {
  static constexpr Loop Run = UnaryLoop<OfStored<Fn, T, kernels::Bool>, T, kernels::Bool>;
};
template <typename Fn, typename T>
struct BinarySame {
  static constexpr Loop Run = BinarySameLoop<Fn, T>();
};
template <typename Fn, typename T>
struct BinaryToBool {
  static constexpr Loop Run = BinaryLoop<OfStored<Fn, T, kernels::Bool>, T, kernels::Bool>;
};

}  // namespace CHX_LOOPS_NAMESPACE
}  // namespace chx::server::native
