// Numbers and names for people.
#ifndef CHX_CLIENT_CTL_TEXT_H_
#define CHX_CLIENT_CTL_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace chx::ctl {

// "0", "512 B", "1.5 MiB", "4.0 GiB".
std::string FormatBytes(uint64_t bytes);
// Of a limit: "-" for 0.
std::string FormatLimit(uint64_t bytes);
// "0.4s", "12s", "3m05s", "2h10m", "5d03h".
std::string FormatSeconds(double seconds);
// "950", "12.3k", "4.0M".
std::string FormatCount(double count);
// Without what could steer a terminal: control characters and invalid UTF-8 become \xNN. The daemon
// does this, too; chxctl does not rely on it.
std::string Plain(absl::string_view text);

// Columns as wide as their widest cell, two spaces apart. Text is made plain, and cells of more
// than kMaxCell characters are shortened.
class Table {
 public:
  static constexpr size_t kMaxCell = 40;
  enum Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // `bold`: the titles, by a terminal's codes.
  std::string Render(bool bold = false) const;

 private:
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace chx::ctl

#endif  // CHX_CLIENT_CTL_TEXT_H_
