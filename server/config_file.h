// The file that --config names, as CLI11 takes it.
#ifndef CHX_SERVER_CONFIG_FILE_H_
#define CHX_SERVER_CONFIG_FILE_H_

#include <CLI/CLI.hpp>

#include <istream>
#include <string>
#include <vector>

namespace chx::server {

// TOML, read by toml++: CLI11's own reader takes a value without its closing quote, and others like
// it, for what they are not.
class ConfigFile final : public CLI::Config {
 public:
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return ""; }
  // A list stands for its items with commas between them. Throws CLI::ConfigError.
  std::vector<CLI::ConfigItem> from_config(std::istream& file) const override;
};

}  // namespace chx::server

#endif  // CHX_SERVER_CONFIG_FILE_H_
