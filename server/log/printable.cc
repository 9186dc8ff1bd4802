#include "server/log/printable.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

// The length of the UTF-8 sequence at the text's begin and its code point; 0: there is none.
size_t Decode(absl::string_view text, uint32_t* code) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) {
    *code = byte(0);
    return 1;
  }
  const size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : byte(0) >= 0xc2 ? 2 : 0;
  if (size == 0 || byte(0) > 0xf4 || text.size() < size) return 0;
  *code = byte(0) & (0x7fu >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < kSmallest[size] || *code > 0x10ffff || surrogate ? 0 : size;
}

bool IsControl(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  return code < 0x20 || within(0x7f, 0x9f) || within(0x200b, 0x200f) || within(0x2028, 0x202e) ||
         within(0x2066, 0x2069) || code == 0xfeff;
}

std::string Escape(absl::string_view text, bool lines) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t size = Decode(text, &code);
    const absl::string_view part = text.substr(0, size == 0 ? 1 : size);
    text.remove_prefix(part.size());
    if (size != 0 && (!IsControl(code) || (lines && code == '\n'))) {
      absl::StrAppend(&result, code == '\\' && !lines ? "\\\\" : part);
      continue;
    }
    for (const char each : part) {
      absl::StrAppend(&result, "\\x", absl::Hex(static_cast<unsigned char>(each), absl::kZeroPad2));
    }
  }
  return result;
}

}  // namespace

std::string Printable(absl::string_view text) { return Escape(text, /*lines=*/false); }

std::string PrintableLines(absl::string_view text) { return Escape(text, /*lines=*/true); }

}  // namespace chx::server
