// From a dtype known at run time to a C++ type.
#ifndef CHX_SERVER_KERNELS_DISPATCH_H_
#define CHX_SERVER_KERNELS_DISPATCH_H_

#include <cstdint>
#include <utility>

#include "ops/dtype.h"
#include "ops/scalar.h"
#include "server/kernels/types.h"

namespace chx::server::kernels {

template <typename T>
struct TypeTag {
  using Type = T;
};

template <typename... Ts>
struct TypeList {
  static constexpr int kSize = sizeof...(Ts);
};
// In the order of Dtype's values.
using AllTypes =
    TypeList<Bool, int8_t, int16_t, int32_t, int64_t, uint8_t, Half, float, double, Bfloat16>;
static_assert(AllTypes::kSize == kNumDtypes, "one type per dtype");
using FloatTypes = TypeList<Half, float, double, Bfloat16>;

template <typename T>
struct DtypeOfType;
#define CHX_DTYPE_OF(type, dtype)                 \
  template <>                                     \
  struct DtypeOfType<type> {                      \
    static constexpr Dtype kDtype = Dtype::dtype; \
  };
CHX_DTYPE_OF(Bool, kBool)
CHX_DTYPE_OF(int8_t, kInt8)
CHX_DTYPE_OF(int16_t, kInt16)
CHX_DTYPE_OF(int32_t, kInt32)
CHX_DTYPE_OF(int64_t, kInt64)
CHX_DTYPE_OF(uint8_t, kUint8)
CHX_DTYPE_OF(Half, kFloat16)
CHX_DTYPE_OF(float, kFloat32)
CHX_DTYPE_OF(double, kFloat64)
CHX_DTYPE_OF(Bfloat16, kBfloat16)
#undef CHX_DTYPE_OF
template <typename T>
inline constexpr Dtype kDtypeOf = DtypeOfType<T>::kDtype;

// Calls fn(TypeTag<T>()) with the storage type of `dtype`; every call must return the same type.
template <typename Fn>
decltype(auto) VisitDtype(Dtype dtype, Fn&& fn) {
  switch (dtype) {
    case Dtype::kBool:
      return fn(TypeTag<Bool>());
    case Dtype::kInt8:
      return fn(TypeTag<int8_t>());
    case Dtype::kInt16:
      return fn(TypeTag<int16_t>());
    case Dtype::kInt32:
      return fn(TypeTag<int32_t>());
    case Dtype::kInt64:
      return fn(TypeTag<int64_t>());
    case Dtype::kUint8:
      return fn(TypeTag<uint8_t>());
    case Dtype::kFloat16:
      return fn(TypeTag<Half>());
    case Dtype::kBfloat16:
      return fn(TypeTag<Bfloat16>());
    case Dtype::kFloat32:
      return fn(TypeTag<float>());
    case Dtype::kFloat64:
      break;
  }
  return fn(TypeTag<double>());
}

// Floats only; any other dtype is taken for float64.
template <typename Fn>
decltype(auto) VisitFloat(Dtype dtype, Fn&& fn) {
  if (dtype == Dtype::kFloat32) return fn(TypeTag<float>());
  if (dtype == Dtype::kFloat16) return fn(TypeTag<Half>());
  if (dtype == Dtype::kBfloat16) return fn(TypeTag<Bfloat16>());
  return fn(TypeTag<double>());
}

// Integers only (no bool); any other dtype is taken for int64.
template <typename Fn>
decltype(auto) VisitInt(Dtype dtype, Fn&& fn) {
  switch (dtype) {
    case Dtype::kInt8:
      return fn(TypeTag<int8_t>());
    case Dtype::kInt16:
      return fn(TypeTag<int16_t>());
    case Dtype::kInt32:
      return fn(TypeTag<int32_t>());
    case Dtype::kUint8:
      return fn(TypeTag<uint8_t>());
    default:
      return fn(TypeTag<int64_t>());
  }
}

// An unsigned integer of the item's size, for kernels that only move elements.
template <typename Fn>
decltype(auto) VisitItemSize(int64_t item_size, Fn&& fn) {
  switch (item_size) {
    case 1:
      return fn(TypeTag<uint8_t>());
    case 2:
      return fn(TypeTag<uint16_t>());
    case 4:
      return fn(TypeTag<uint32_t>());
    default:
      return fn(TypeTag<uint64_t>());
  }
}

// A Python-like scalar as an element.
template <typename T>
T ScalarAs(const Scalar& scalar) {
  return scalar.is_float() ? Cast<T>(scalar.AsDouble()) : Cast<T>(scalar.AsInt());
}

}  // namespace chx::server::kernels

#endif  // CHX_SERVER_KERNELS_DISPATCH_H_
