// Well-formed commands in any order, by tests/fuzz/generator.h: what gets past the decoder, and far
// beyond it.
#include <string>
#include <vector>

#include "tests/fuzz/generator.h"
#include "tests/fuzz/small_session.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  chx::server::SmallSession session;
  chx::Choices choices(data, size);
  chx::CommandGenerator generator(&choices);
  std::vector<chx::Command> window;
  chx::Command command;
  while (generator.Next(&command)) {
    if (!chx::TakesLong(command)) {
      window.push_back(command);
      chx::server::SmallSession::Counts().Add(command);
    }
    if (window.size() < 6) continue;
    session.Execute(window);
    window.clear();
  }
  session.Execute(window);
  return 0;
}

namespace chx {

std::string FuzzCounts() { return server::SmallSession::Counts().ToString(); }

std::vector<std::string> FuzzSeeds() { return AnySeeds(1, {20, 100, 400, 400, 400, 2000}); }

}  // namespace chx
