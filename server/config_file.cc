#include "server/config_file.h"

#include <toml++/toml.h>

#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

[[noreturn]] void Fail(const std::string& key, const char* expected) {
  throw CLI::ConfigError(absl::StrCat("--config: ", key, " expects ", expected));
}

std::string Scalar(const std::string& key, const toml::node& node) {
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* const number = node.as_floating_point()) return absl::StrCat(number->get());
  if (const auto* const flag = node.as_boolean()) return flag->get() ? "true" : "false";
  Fail(key, "a text, a number, true or false, or a list of these");
}

std::string Value(const std::string& key, const toml::node& node) {
  const toml::array* const list = node.as_array();
  if (list == nullptr) return Scalar(key, node);
  std::string text;
  for (const toml::node& item : *list) {
    absl::StrAppend(&text, text.empty() ? "" : ",", Scalar(key, item));
  }
  return text;
}

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& file) const {
  std::vector<CLI::ConfigItem> items;
  try {
    for (const auto& [name, node] : toml::parse(file)) {
      const std::string key(name.str());
      CLI::ConfigItem item;
      item.name = key;
      item.inputs = {Value(key, node)};
      items.push_back(item);
    }
  } catch (const toml::parse_error& error) {
    throw CLI::ConfigError(absl::StrCat("--config: line ", error.source().begin.line, ": ",
                                        std::string(error.description())));
  }
  return items;
}

}  // namespace chx::server
