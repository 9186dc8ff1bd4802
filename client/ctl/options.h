// chxctl's command line.
#ifndef CHX_CLIENT_CTL_OPTIONS_H_
#define CHX_CLIENT_CTL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace chx::ctl {

struct Options {
  std::string address;  // empty: none was given
  std::string token_file;
  std::string tls_roots;
  bool json = false;

  std::string command;   // "status", "session kill", ...
  uint64_t session = 0;  // 0: all
  std::string run;       // its name
  uint64_t memory = 0;
  bool wait = false;
  double timeout = 0;  // seconds; 0: none
  double seconds = 5;
  std::string out;
  std::string from;
  std::vector<std::string> merge;
  bool once = false;
  double interval = 1;
  std::string sort = "compute";
  std::string shell;
};

// What to do after the command line was read.
struct Parsed {
  Options options;
  bool done = false;  // `text` is to be printed, and that is all
  int exit_code = 0;
  std::string text;
  std::string error;
};

Parsed Parse(int argc, const char* const* argv);

// A script for bash, zsh or fish that completes commands and flags; empty: another shell.
std::string CompletionScript(const std::string& shell);

}  // namespace chx::ctl

#endif  // CHX_CLIENT_CTL_OPTIONS_H_
