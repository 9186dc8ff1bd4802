#include "formats/npy_header.h"

#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kVersioned = 8;           // magic and version
constexpr uint32_t kMaxHeader = 64 << 10;  // NumPy refuses more than 10,000
constexpr size_t kAlignment = 64;
constexpr size_t kMaxDims = 64;

struct Code {
  absl::string_view name;
  Dtype dtype;
};
constexpr Code kCodes[] = {
    {"b1", Dtype::kBool},    {"i1", Dtype::kInt8},    {"i2", Dtype::kInt16},
    {"i4", Dtype::kInt32},   {"i8", Dtype::kInt64},   {"u1", Dtype::kUint8},
    {"f2", Dtype::kFloat16}, {"f4", Dtype::kFloat32}, {"f8", Dtype::kFloat64}};

// Empty: NumPy has no name for it.
absl::string_view CodeOf(Dtype dtype) {
  for (const Code& known : kCodes) {
    if (known.dtype == dtype) return known.name;
  }
  return "";
}

// The part of Python's syntax that headers consist of. Each function says whether it was there.
class Literals {
 public:
  explicit Literals(absl::string_view text) : text_(text) {}

  bool Take(absl::string_view token) {
    text_ = absl::StripLeadingAsciiWhitespace(text_);
    return absl::ConsumePrefix(&text_, token);
  }
  bool TakeString(std::string* value) {
    const char* const quote = Take("'") ? "'" : Take("\"") ? "\"" : nullptr;
    if (quote == nullptr) return false;
    const size_t end = text_.find(quote[0]);
    if (end == absl::string_view::npos) return false;
    *value = std::string(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value->find('\\') == std::string::npos;
  }
  bool TakeBool(bool* value) {
    *value = Take("True");
    return *value || Take("False");
  }
  bool TakeInts(std::vector<int64_t>* values) {
    if (!Take("(")) return false;
    while (!Take(")")) {
      size_t digits = 0;
      while (digits < text_.size() && absl::ascii_isdigit(text_[digits])) ++digits;
      int64_t value = 0;
      if (values->size() == kMaxDims || !absl::SimpleAtoi(text_.substr(0, digits), &value)) {
        return false;
      }
      text_.remove_prefix(digits);
      Take("L");  // Python 2's
      values->push_back(value);
      if (!Take(",")) return Take(")");
    }
    return true;
  }
  bool AtEnd() {
    Take("");
    return text_.empty();
  }

 private:
  absl::string_view text_;
};

absl::Status ParseDescr(absl::string_view descr, NpyHeader* header) {
  absl::string_view code = descr;
  const bool has_order = !code.empty() && absl::StrContains("<>|=", code.substr(0, 1));
  if (has_order) code.remove_prefix(1);
  for (const Code& known : kCodes) {
    if (known.name != code) continue;
    header->dtype = known.dtype;
    header->order.swapped = descr[0] == '>' && ItemSize(known.dtype) > 1;
    return absl::OkStatus();
  }
  return DtypeError("expects a dtype of chx, got NumPy's '", descr.substr(0, 40), "'");
}

template <typename T>
absl::StatusOr<T> ReadLittleEndian(ReadFn read) {
  unsigned char bytes[sizeof(T)];
  CHX_RETURN_IF_ERROR(read(reinterpret_cast<char*>(bytes), sizeof(T)));
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | T(bytes[i]) << (8 * i));
  return value;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view text) {
  NpyHeader header;
  std::string key, descr;
  bool has_order = false, has_shape = false;
  Literals literals(text);
  bool valid = literals.Take("{");
  while (valid && !literals.Take("}")) {
    valid = literals.TakeString(&key) && literals.Take(":");
    if (!valid) break;
    if (key == "descr" && descr.empty()) {
      valid = literals.TakeString(&descr) && !descr.empty();
      if (!valid && literals.Take("[")) return DtypeError("expects no structured dtype");
    } else if (key == "fortran_order" && !has_order) {
      valid = has_order = literals.TakeBool(&header.order.fortran);
    } else if (key == "shape" && !has_shape) {
      valid = has_shape = literals.TakeInts(&header.shape);
    } else {
      valid = false;
    }
    if (valid && !literals.Take(",")) {
      valid = literals.Take("}");
      break;
    }
  }
  if (!valid || descr.empty() || !has_order || !has_shape || !literals.AtEnd()) {
    return ValueError("expects a header with descr, fortran_order and shape");
  }
  CHX_RETURN_IF_ERROR(ParseDescr(descr, &header));
  return header;
}

absl::StatusOr<NpyHeader> ReadNpyHeader(ReadFn read, uint64_t bytes, uint64_t* prefix) {
  char start[kVersioned];
  const absl::Status cut =
      ValueError("expects a .npy file, which is longer than ", bytes, " bytes");
  if (bytes < kVersioned + 4) return cut;
  CHX_RETURN_IF_ERROR(read(start, sizeof(start)));
  if (absl::string_view(start, kMagic.size()) != kMagic) {
    return ValueError("expects a .npy file, which begins with \\x93NUMPY");
  }
  const int version = start[kMagic.size()];
  if (version < 1 || version > 3) {
    return ValueError("expects version 1, 2 or 3 of the .npy format, got ", version);
  }
  uint32_t length = 0;
  if (version == 1) {
    CHX_ASSIGN_OR_RETURN(length, ReadLittleEndian<uint16_t>(read));
  } else {
    CHX_ASSIGN_OR_RETURN(length, ReadLittleEndian<uint32_t>(read));
  }
  *prefix = kVersioned + (version == 1 ? 2 : 4) + length;
  if (*prefix > bytes) return cut;
  if (length > kMaxHeader) {
    return ValueError("expects a header of at most ", kMaxHeader, " bytes, got ", length);
  }
  std::string text;
  CHX_RETURN_IF_ERROR(ReadString(read, length, &text));
  return ParseNpyHeader(text);
}

absl::Status CheckNpyDtype(Dtype dtype) {
  if (!CodeOf(dtype).empty()) return absl::OkStatus();
  return DtypeError("expects a dtype of NumPy, got ", DtypeName(dtype),
                    ": cast it, or use .safetensors");
}

std::string NpyPrefix(Dtype dtype, const Shape& shape) {
  std::string dims;
  for (int64_t dim : shape) absl::StrAppend(&dims, dims.empty() ? "" : " ", dim, ",");
  // (3,) and (3, 4)
  if (shape.size() > 1) dims.pop_back();
  std::string header = absl::StrCat("{'descr': '", ItemSize(dtype) == 1 ? "|" : "<", CodeOf(dtype),
                                    "', 'fortran_order': False, 'shape': (", dims, "), }");
  const size_t length = kVersioned + 2 + header.size() + 1;
  header.append((kAlignment - length % kAlignment) % kAlignment, ' ');
  header += '\n';
  const auto size = static_cast<uint16_t>(header.size());
  const char version_and_size[] = {1, 0, static_cast<char>(size & 0xff),
                                   static_cast<char>(size >> 8)};
  return absl::StrCat(kMagic, absl::string_view(version_and_size, 4), header);
}

}  // namespace chx
