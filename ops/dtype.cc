#include "ops/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace chx {
namespace {

constexpr absl::string_view kNames[kNumDtypes] = {"bool",    "int8",    "int16",   "int32",
                                                  "int64",   "uint8",   "float16", "float32",
                                                  "float64", "bfloat16"};

}  // namespace

absl::string_view DtypeName(Dtype dtype) { return kNames[static_cast<int>(dtype)]; }

absl::optional<Dtype> DtypeFromName(absl::string_view name) {
  for (int i = 0; i < kNumDtypes; ++i) {
    if (kNames[i] == name) return static_cast<Dtype>(i);
  }
  return absl::nullopt;
}

double EpsilonOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return 0x1p-10;
    case Dtype::kBfloat16:
      return 0x1p-7;
    case Dtype::kFloat32:
      return std::numeric_limits<float>::epsilon();
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

double GreatestOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return 65504;
    case Dtype::kBfloat16:
      return 0x1.fep127;
    case Dtype::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

double NarrowFloatToDouble(Dtype dtype, uint16_t bits) {
  const int digits = dtype == Dtype::kBfloat16 ? 7 : 10;
  const int special = (1 << (15 - digits)) - 1;  // the exponent of infinities and NaNs
  const int exponent = (bits >> digits) & special;
  const int fraction = bits & ((1 << digits) - 1);
  const int significand = exponent == 0 ? fraction : fraction + (1 << digits);
  const double magnitude =
      exponent == special ? (fraction == 0 ? HUGE_VAL : std::nan(""))
                          : std::ldexp(significand, std::max(exponent, 1) - special / 2 - digits);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

Dtype PromoteTypes(Dtype a, Dtype b) {
  if (a == b) return a;
  if (KindOf(a) != KindOf(b)) return KindOf(a) > KindOf(b) ? a : b;
  if (IsFloat(a)) {
    if (ItemSize(a) == ItemSize(b)) return Dtype::kFloat32;  // float16 and bfloat16
    return ItemSize(a) > ItemSize(b) ? a : b;
  }
  // Two different integers.
  if (a == Dtype::kUint8) std::swap(a, b);
  return b == Dtype::kUint8 ? std::max(a, Dtype::kInt16) : std::max(a, b);
}

Dtype PromoteTypes(Dtype array, ScalarKind scalar) {
  return scalar > KindOf(array) ? DefaultDtype(scalar) : array;
}

Dtype DefaultDtype(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::kBool:
      return Dtype::kBool;
    case ScalarKind::kInt:
      return Dtype::kInt32;
    case ScalarKind::kFloat:
      break;
  }
  return Dtype::kFloat32;
}

std::string Scalar::ToString() const {
  switch (kind_) {
    case ScalarKind::kBool:
      return int_ != 0 ? "True" : "False";
    case ScalarKind::kInt:
      return absl::StrCat(int_);
    case ScalarKind::kFloat:
      break;
  }
  return std::isfinite(float_) && float_ == std::floor(float_) && std::abs(float_) < 1e15
             ? absl::StrCat(static_cast<int64_t>(float_), ".0")
             : absl::StrCat(float_);
}

}  // namespace chx
