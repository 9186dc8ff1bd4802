// Loops for the formulas of server/kernels/elementwise_fns.h.
// Included only by files that are compiled once per instruction set (parts.h).
#ifndef CHX_SERVER_NATIVE_LOOPS_ELEMENTWISE_LOOPS_H_
#define CHX_SERVER_NATIVE_LOOPS_ELEMENTWISE_LOOPS_H_

#include <cstdint>
#include <type_traits>

#include "server/kernels/dispatch.h"
#include "server/kernels/elementwise_fns.h"
#include "server/native/loops/elements.h"
#include "server/native/loops/loops.h"

namespace chx::server::native::CHX_ISA {

// The formulas as functions of stored types.
template <typename Fn, typename T, typename Out>
struct OfStored {
  CHX_HD static Out Call(const T& x) { return Store<Out>(Fn()(Load(x))); }
  CHX_HD static Out Call(const T& x, const T& y) { return Store<Out>(Fn()(Load(x), Load(y))); }
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

// row[dtype] = the formula's loop, for each of the types.
template <typename Fn, template <typename, typename> class Runner, typename... Ts>
void FillRow(Loop* row, kernels::TypeList<Ts...>) {
  ((row[static_cast<int>(kernels::kDtypeOf<Ts>)] = Runner<Fn, Ts>::Run), ...);
}

// The same for each formula of a list, whose rows follow one another.
template <template <typename, typename> class Runner, typename Types, typename... Fns>
void FillRows(Loop (*rows)[kNumDtypes], kernels::FnList<Fns...>, Types types) {
  (FillRow<Fns, Runner>(*rows++, types), ...);
}

}  // namespace chx::server::native::CHX_ISA

#endif  // CHX_SERVER_NATIVE_LOOPS_ELEMENTWISE_LOOPS_H_
