// Element types.
#ifndef CHX_CHAINERX_DTYPE_H_
#define CHX_CHAINERX_DTYPE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "chx/chainerx/error.h"
#include "chx/chainerx/float16.h"

namespace chainerx {

enum class Dtype {
  kBool = 1,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kFloat16,
  kFloat32,
  kFloat64,
};
enum class DtypeKind { kBool = 0, kInt, kUInt, kFloat };

// What a type of C++ is as an element, for VisitDtype's callbacks.
template <typename T>
struct PrimitiveType;

namespace internal {
template <typename T, Dtype dtype, DtypeKind kind, char code>
struct Primitive {
  using type = T;
  static constexpr Dtype kDtype = dtype;
  static constexpr DtypeKind kKind = kind;
  static constexpr char kCharCode = code;
  static constexpr int64_t kElementSize = sizeof(T);
};
}  // namespace internal

template <>
struct PrimitiveType<bool> : internal::Primitive<bool, Dtype::kBool, DtypeKind::kBool, '?'> {};
template <>
struct PrimitiveType<int8_t> : internal::Primitive<int8_t, Dtype::kInt8, DtypeKind::kInt, 'b'> {};
template <>
struct PrimitiveType<int16_t> : internal::Primitive<int16_t, Dtype::kInt16, DtypeKind::kInt, 'h'> {
};
template <>
struct PrimitiveType<int32_t> : internal::Primitive<int32_t, Dtype::kInt32, DtypeKind::kInt, 'i'> {
};
template <>
struct PrimitiveType<int64_t> : internal::Primitive<int64_t, Dtype::kInt64, DtypeKind::kInt, 'l'> {
};
template <>
struct PrimitiveType<uint8_t> : internal::Primitive<uint8_t, Dtype::kUInt8, DtypeKind::kUInt, 'B'> {
};
template <>
struct PrimitiveType<Float16>
    : internal::Primitive<Float16, Dtype::kFloat16, DtypeKind::kFloat, 'e'> {};
template <>
struct PrimitiveType<float> : internal::Primitive<float, Dtype::kFloat32, DtypeKind::kFloat, 'f'> {
};
template <>
struct PrimitiveType<double>
    : internal::Primitive<double, Dtype::kFloat64, DtypeKind::kFloat, 'd'> {};

template <typename T>
constexpr Dtype TypeToDtype = PrimitiveType<std::remove_const_t<T>>::kDtype;

constexpr bool IsValidDtype(Dtype dtype) {
  return dtype >= Dtype::kBool && dtype <= Dtype::kFloat64;
}

// f(PrimitiveType<T>{}, args...) for the type of a dtype.
template <typename F, typename... Args>
auto VisitDtype(Dtype dtype, F&& f, Args&&... args) {
  switch (dtype) {
    case Dtype::kBool:
      return f(PrimitiveType<bool>{}, std::forward<Args>(args)...);
    case Dtype::kInt8:
      return f(PrimitiveType<int8_t>{}, std::forward<Args>(args)...);
    case Dtype::kInt16:
      return f(PrimitiveType<int16_t>{}, std::forward<Args>(args)...);
    case Dtype::kInt32:
      return f(PrimitiveType<int32_t>{}, std::forward<Args>(args)...);
    case Dtype::kInt64:
      return f(PrimitiveType<int64_t>{}, std::forward<Args>(args)...);
    case Dtype::kUInt8:
      return f(PrimitiveType<uint8_t>{}, std::forward<Args>(args)...);
    case Dtype::kFloat16:
      return f(PrimitiveType<Float16>{}, std::forward<Args>(args)...);
    case Dtype::kFloat32:
      return f(PrimitiveType<float>{}, std::forward<Args>(args)...);
    case Dtype::kFloat64:
      return f(PrimitiveType<double>{}, std::forward<Args>(args)...);
  }
  throw DtypeError("[dtype] expects a valid dtype, got ", static_cast<int>(dtype));
}
template <typename F, typename... Args>
auto VisitFloatingPointDtype(Dtype dtype, F&& f, Args&&... args) {
  switch (dtype) {
    case Dtype::kFloat16:
      return f(PrimitiveType<Float16>{}, std::forward<Args>(args)...);
    case Dtype::kFloat32:
      return f(PrimitiveType<float>{}, std::forward<Args>(args)...);
    case Dtype::kFloat64:
      return f(PrimitiveType<double>{}, std::forward<Args>(args)...);
    default:
      throw DtypeError("[dtype] expects a float dtype, got ", static_cast<int>(dtype));
  }
}

// "float32".
const char* GetDtypeName(Dtype dtype);
// A DtypeError if there is none of that name.
Dtype GetDtype(const std::string& name);
DtypeKind GetKind(Dtype dtype);
// As NumPy's.
char GetCharCode(Dtype dtype);
char GetDtypeKindChar(DtypeKind kind);
// In bytes.
int64_t GetItemSize(Dtype dtype);
// The dtype of a combination of two arrays.
Dtype PromoteTypes(Dtype a, Dtype b);
std::vector<Dtype> GetAllDtypes();
// A DtypeError unless they are equal.
void CheckEqual(Dtype a, Dtype b);
std::ostream& operator<<(std::ostream& os, Dtype dtype);

}  // namespace chainerx

#endif  // CHX_CHAINERX_DTYPE_H_
