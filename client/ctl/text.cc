#include "client/ctl/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace chx::ctl {
namespace {

// How many bytes the UTF-8 character at the front has; 0: it is none, or is not to be shown.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // U+0080 to U+009F control a terminal, U+2028 to U+202E and U+2066 to U+2069 the direction.
  if (first == 0xc2 && byte(1) < 0xa0) return 0;
  if (first == 0xe2 && byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) return 0;
  if (first == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9) return 0;
  return size;
}

size_t Width(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string Shortened(const std::string& text, size_t width) {
  if (Width(text) <= width) return text;
  size_t end = 0;
  size_t characters = 0;
  while (end < text.size()) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && ++characters == width - 2) break;
    ++end;
  }
  return text.substr(0, end) + "...";
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  if (bytes == 0) return "0";
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.96 would be shown as 1024.0.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatLimit(uint64_t bytes) { return bytes == 0 ? "-" : FormatBytes(bytes); }

std::string FormatSeconds(double seconds) {
  if (!(seconds >= 0)) seconds = 0;
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  const auto whole = static_cast<int64_t>(std::min(std::round(seconds), 1e15));
  if (whole < 60) return absl::StrCat(whole, "s");
  if (whole < 3600) return absl::StrFormat("%dm%02ds", whole / 60, whole % 60);
  if (whole < 86400) return absl::StrFormat("%dh%02dm", whole / 3600, whole % 3600 / 60);
  return absl::StrFormat("%dd%02dh", whole / 86400, whole % 86400 / 3600);
}

std::string FormatCount(double count) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  while (count >= (unit == 0 ? 999.5 : 999.95) && unit + 1 < std::size(kUnits)) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f", count)
                   : absl::StrFormat("%.1f%s", count, kUnits[unit]);
}

std::string Plain(absl::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t size = CharacterBytes(text);
    if (size == 0) {
      absl::StrAppendFormat(&plain, "\\x%02x", static_cast<unsigned char>(text[0]));
    } else {
      absl::StrAppend(&plain, text.substr(0, size));
    }
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return plain;
}

std::string Table::Render(bool bold) const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : columns_) lines[0].push_back(column.title);
  for (const std::vector<std::string>& row : rows_) {
    lines.emplace_back();
    for (size_t i = 0; i < columns_.size(); ++i) {
      lines.back().push_back(i < row.size() ? Shortened(Plain(row[i]), kMaxCell) : "");
    }
  }
  std::vector<size_t> widths(columns_.size());
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], Width(line[i]));
  }
  std::string out;
  for (size_t row = 0; row < lines.size(); ++row) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string space(widths[i] - Width(lines[row][i]), ' ');
      const bool right = columns_[i].align == kRight;
      absl::StrAppend(&text, i == 0 ? "" : "  ", right ? space : "", lines[row][i],
                      right ? "" : space);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    const bool is_bold = bold && row == 0;
    absl::StrAppend(&out, is_bold ? "\x1b[1m" : "", text, is_bold ? "\x1b[0m" : "", "\n");
  }
  return out;
}

}  // namespace chx::ctl
