#include "server/engine/memory_size.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace chx::server {
namespace {

// The bytes of a unit, which is taken off the text's end; 1 without one.
double ConsumeUnit(absl::string_view* text) {
  constexpr absl::string_view kLetters = "KMGT";
  absl::string_view rest = *text;
  const auto consume = [&rest](char letter) {
    if (rest.empty() || absl::ascii_toupper(rest.back()) != letter) return false;
    rest.remove_suffix(1);
    return true;
  };
  consume('B');
  const double base = consume('I') ? 1024 : 1000;
  for (size_t i = 0; i < kLetters.size(); ++i) {
    if (!consume(kLetters[i])) continue;
    *text = rest;
    return std::pow(base, static_cast<double>(i + 1));
  }
  return 1;
}

bool IsDecimal(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
}

}  // namespace

absl::StatusOr<int64_t> ParseMemorySize(absl::string_view text, int64_t whole) {
  const absl::Status error = absl::InvalidArgumentError(absl::StrCat(
      "expects a number of bytes such as 512MiB, 4GiB or 4GB, or a share such as 0.5 or 50%, got '",
      text, "'"));
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  const bool percent = absl::ConsumeSuffix(&rest, "%");
  const double unit = percent ? 1 : ConsumeUnit(&rest);
  rest = absl::StripTrailingAsciiWhitespace(rest);
  int64_t integer = 0;
  if (!percent && unit == 1 && absl::SimpleAtoi(rest, &integer)) {
    return integer > 0 ? absl::StatusOr<int64_t>(integer) : error;
  }
  double number = 0;
  if (!IsDecimal(rest) || !absl::SimpleAtod(rest, &number)) return error;
  if (percent || unit == 1) {
    const double share = percent ? number / 100 : number;
    if (!(share > 0 && share <= 1)) return error;
    number = share * static_cast<double>(whole);
  } else {
    number *= unit;
  }
  if (!(number >= 1 && number < std::ldexp(1.0, 63))) return error;
  return static_cast<int64_t>(number);
}

std::string FormatMemorySize(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  double number = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (number >= 1024 && unit + 1 < std::size(kUnits)) {
    number /= 1024;
    ++unit;
  }
  // Never more than there is.
  const double tenths = std::floor(number * 10) / 10;
  return absl::StrFormat("%.*f %s", tenths == std::floor(tenths) ? 0 : 1, tenths, kUnits[unit]);
}

}  // namespace chx::server
