#include "server/flags_help.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace chx::server {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kIndent = 6;

std::string Wrapped(absl::string_view text) {
  std::string out;
  size_t column = kColumns;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipWhitespace())) {
    if (column + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, out.empty() ? "" : "\n", std::string(kIndent, ' '), word);
      column = kIndent + word.size();
    } else {
      absl::StrAppend(&out, " ", word);
      column += 1 + word.size();
    }
  }
  return out;
}

}  // namespace

std::string FlagsHelp::make_usage(const CLI::App* app, std::string name) const {
  return "Usage: chxd [FLAGS]\n\n";
}

std::string FlagsHelp::make_group(std::string group, bool is_positional,
                                  std::vector<const CLI::Option*> options) const {
  std::string text = absl::StrCat(group, ":\n");
  for (const CLI::Option* option : options) text += make_option(option, is_positional);
  return text;
}

std::string FlagsHelp::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string value = option->get_default_str();
  std::string help = option->get_description();
  const bool takes_value = option->get_items_expected_max() > 0;
  if (takes_value && value.empty() && !absl::StrContains(help, "efault:"))
    help += " Default: none.";
  return absl::StrCat("  --", option->get_lnames().front(), value.empty() ? "" : "=", value, "\n",
                      Wrapped(help), "\n");
}

}  // namespace chx::server
