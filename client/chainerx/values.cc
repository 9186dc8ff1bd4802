// Dtypes, numbers and shapes.
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/chainerx/internal.h"

namespace chainerx {
namespace {

// Six digits, and a point as in Python.
std::string FloatString(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = absl::StrCat(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

namespace internal {

std::string TupleString(const int64_t* begin, const int64_t* end) {
  return chx::Dims(absl::MakeConstSpan(begin, end)).ToString();
}

void ThrowIndexError(const char* what, int64_t index, size_t size) {
  throw IndexError("[", what, "] expects an index below ", size, ", got ", index);
}

}  // namespace internal

Float16::Float16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) {
    data_ = sign | 0x7e00;
  } else if (magnitude >= 65520.0F) {  // rounds to what is too large
    data_ = sign | 0x7c00;
  } else if (magnitude == 0) {
    data_ = sign;
  } else {
    // In units of the last place of its exponent, rounded to even; 2^-24 is the least there is.
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int last_place = std::max(exponent - 11, -24);
    const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, -last_place)));
    // A carry out of the fraction goes on into the exponent.
    const uint32_t scale = last_place == -24 ? 0 : static_cast<uint32_t>(last_place + 24);
    data_ = static_cast<uint16_t>(sign | ((scale << 10) + units));
  }
}

Float16::operator float() const {
  const int exponent = (data_ >> 10) & 31;
  const int fraction = data_ & 1023;
  const float magnitude = exponent == 31 ? (fraction == 0 ? HUGE_VALF : std::nanf(""))
                          : exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(1024.0F + static_cast<float>(fraction), exponent - 25);
  return (data_ & 0x8000) != 0 ? -magnitude : magnitude;
}

const char* GetDtypeName(Dtype dtype) {
  if (!IsValidDtype(dtype)) {
    throw DtypeError("[dtype] expects a valid dtype, got ", static_cast<int>(dtype));
  }
  return chx::DtypeName(internal::ToChx(dtype)).data();
}

Dtype GetDtype(const std::string& name) {
  const absl::optional<chx::Dtype> dtype = chx::DtypeFromName(name);
  if (!dtype.has_value()) throw DtypeError("[dtype] expects the name of a dtype, got '", name, "'");
  return internal::FromChx(*dtype);
}

DtypeKind GetKind(Dtype dtype) {
  return VisitDtype(dtype, [](auto type) { return decltype(type)::kKind; });
}

char GetCharCode(Dtype dtype) {
  return VisitDtype(dtype, [](auto type) { return decltype(type)::kCharCode; });
}

char GetDtypeKindChar(DtypeKind kind) { return "biuf"[static_cast<int>(kind)]; }

int64_t GetItemSize(Dtype dtype) {
  return VisitDtype(dtype, [](auto type) { return decltype(type)::kElementSize; });
}

Dtype PromoteTypes(Dtype a, Dtype b) {
  return internal::FromChx(chx::PromoteTypes(internal::ToChx(a), internal::ToChx(b)));
}

std::vector<Dtype> GetAllDtypes() {
  std::vector<Dtype> dtypes;
  dtypes.reserve(chx::kNumDtypes);
  for (int i = 0; i < chx::kNumDtypes; ++i) {
    const Dtype dtype = internal::FromChx(static_cast<chx::Dtype>(i));
    if (IsValidDtype(dtype)) dtypes.push_back(dtype);  // ChainerX has no bfloat16
  }
  return dtypes;
}

void CheckEqual(Dtype a, Dtype b) {
  if (a != b) throw DtypeError("expects equal dtypes, got ", a, " and ", b);
}

std::ostream& operator<<(std::ostream& os, Dtype dtype) { return os << GetDtypeName(dtype); }

Dtype GetDefaultDtype(DtypeKind kind) {
  return kind == DtypeKind::kBool    ? Dtype::kBool
         : kind == DtypeKind::kFloat ? Dtype::kFloat32
                                     : Dtype::kInt32;
}

std::string Scalar::ToString() const {
  if (kind_ == DtypeKind::kBool) return int_ != 0 ? "True" : "False";
  return kind_ == DtypeKind::kFloat ? FloatString(float_) : absl::StrCat(int_);
}

Scalar Scalar::operator-() const {
  if (kind_ == DtypeKind::kBool) throw DtypeError("[negative] expects a number, got a bool");
  return kind_ == DtypeKind::kFloat ? Scalar(-float_) : Scalar(-int_);
}

namespace {
// f(x, y) of two doubles if one of them is a float, otherwise of two integers.
template <typename F>
auto Combine(Scalar a, Scalar b, F f) {
  using Result = decltype(f(0.0, 0.0));
  if (a.kind() == DtypeKind::kFloat || b.kind() == DtypeKind::kFloat) {
    return Result(f(static_cast<double>(a), static_cast<double>(b)));
  }
  return Result(f(static_cast<int64_t>(a), static_cast<int64_t>(b)));
}
}  // namespace

bool operator==(Scalar a, Scalar b) {
  return Combine(a, b, [](auto x, auto y) { return x == y; });
}
Scalar operator+(Scalar a, Scalar b) {
  return Combine(a, b, [](auto x, auto y) { return Scalar(x + y); });
}
Scalar operator-(Scalar a, Scalar b) {
  return Combine(a, b, [](auto x, auto y) { return Scalar(x - y); });
}
Scalar operator*(Scalar a, Scalar b) {
  return Combine(a, b, [](auto x, auto y) { return Scalar(x * y); });
}
std::ostream& operator<<(std::ostream& os, Scalar value) { return os << value.ToString(); }

std::string Axes::ToString() const {
  const Dims dims(begin(), end());
  return internal::TupleString(dims.begin(), dims.end());
}

int64_t Shape::GetTotalSize() const {
  int64_t size = 1;
  for (int64_t dim : *this) size *= dim;
  return size;
}

Strides::Strides(const Shape& shape, int64_t item_size) {
  const chx::Strides strides = chx::ContiguousStrides(internal::ToChx(shape), item_size);
  Append(strides.begin(), strides.end());
}

std::ostream& operator<<(std::ostream& os, const Axes& axes) { return os << axes.ToString(); }
std::ostream& operator<<(std::ostream& os, const Shape& shape) { return os << shape.ToString(); }
std::ostream& operator<<(std::ostream& os, const Strides& strides) {
  return os << strides.ToString();
}

void CheckEqual(const Shape& a, const Shape& b) {
  if (a != b) throw DimensionError("expects equal shapes, got ", a, " and ", b);
}
void CheckEqual(const Strides& a, const Strides& b) {
  if (a != b) throw DimensionError("expects equal strides, got ", a, " and ", b);
}

}  // namespace chainerx
