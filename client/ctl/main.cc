// chxctl: looks after a running chxd.
#include <signal.h>

#include <iostream>

#include "client/ctl/commands.h"
#include "client/ctl/options.h"

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  const chx::ctl::Parsed parsed = chx::ctl::Parse(argc, argv);
  if (!parsed.error.empty()) std::cerr << "chxctl: " << parsed.error;
  if (parsed.exit_code != 0 || parsed.done) {
    std::cout << parsed.text;
    return parsed.exit_code;
  }
  return chx::ctl::Run(parsed.options);
}
