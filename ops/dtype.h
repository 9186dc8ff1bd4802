// The element types: ChainerX 7.8.1's nine with its promotion rules, and bfloat16.
#ifndef CHX_OPS_DTYPE_H_
#define CHX_OPS_DTYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "ops/scalar.h"

namespace chx {

// Values are on the wire: append only.
enum class Dtype : uint8_t {
  kBool = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUint8 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
};
// How many there are.
inline constexpr int kNumDtypes = 10;

// Whether the number is one of a Dtype.
constexpr bool IsValidDtype(int value) { return value >= 0 && value < kNumDtypes; }
// Bytes of an element.
constexpr int64_t ItemSize(Dtype dtype) {
  constexpr int64_t kSizes[kNumDtypes] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2};
  return kSizes[static_cast<int>(dtype)];
}
// What kind of numbers the elements are.
constexpr bool IsFloat(Dtype dtype) { return dtype >= Dtype::kFloat16; }
constexpr bool IsBool(Dtype dtype) { return dtype == Dtype::kBool; }
constexpr bool IsInt(Dtype dtype) { return !IsFloat(dtype) && !IsBool(dtype); }
// What functions over the reals give for arrays of a dtype: float32 for bool and integers.
constexpr Dtype AtLeastFloat(Dtype dtype) { return IsFloat(dtype) ? dtype : Dtype::kFloat32; }
// float16 and bfloat16: kernels compute them in float32.
constexpr bool IsNarrowFloat(Dtype dtype) { return IsFloat(dtype) && ItemSize(dtype) == 2; }
// What kernels compute an array of a dtype in, if they store what lies between.
constexpr Dtype WorkDtype(Dtype dtype) { return IsNarrowFloat(dtype) ? Dtype::kFloat32 : dtype; }
// Of a float: how far the next number after 1 is from it, and the greatest finite number.
double EpsilonOf(Dtype dtype);
double GreatestOf(Dtype dtype);
// The number that has these bits in a narrow float.
double NarrowFloatToDouble(Dtype dtype, uint16_t bits);
// The kind of scalar that an element is.
constexpr ScalarKind KindOf(Dtype dtype) {
  return IsBool(dtype) ? ScalarKind::kBool : IsFloat(dtype) ? ScalarKind::kFloat : ScalarKind::kInt;
}

// "float32".
absl::string_view DtypeName(Dtype dtype);
absl::optional<Dtype> DtypeFromName(absl::string_view name);

// The dtype of a combination of two arrays: bool < integers < floats; a float and an integer give
// the float; uint8 with a signed integer gives a signed integer that holds both (at least int16).
// bfloat16 with float16 gives float32, as JAX has it; with any other dtype it is as float16.
Dtype PromoteTypes(Dtype a, Dtype b);
// An array with a Python scalar: the scalar's width never counts, only its kind. A scalar of a
// higher kind gives int32 or float32.
Dtype PromoteTypes(Dtype array, ScalarKind scalar);
// The dtype of a scalar on its own: bool, int32 or float32.
Dtype DefaultDtype(ScalarKind kind);

}  // namespace chx

#endif  // CHX_OPS_DTYPE_H_
