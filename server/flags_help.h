// `chxd --help`: every flag with its default, by topic, in lines that a terminal shows whole.
#ifndef CHX_SERVER_FLAGS_HELP_H_
#define CHX_SERVER_FLAGS_HELP_H_

#include <CLI/CLI.hpp>

#include <string>

namespace chx::server {

class FlagsHelp final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FLAGS_HELP_H_
