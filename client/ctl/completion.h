// Scripts by which shells complete a program's commands and flags.
#ifndef CHX_CLIENT_CTL_COMPLETION_H_
#define CHX_CLIENT_CTL_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

namespace chx::ctl {

// For "bash", "zsh" or "fish"; empty: another one. Made from the commands that `app` has.
std::string Completion(const CLI::App& app, const std::string& shell);

}  // namespace chx::ctl

#endif  // CHX_CLIENT_CTL_COMPLETION_H_
