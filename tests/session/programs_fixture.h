// Records programs in a session, and runs them.
#ifndef CHX_TESTS_SESSION_PROGRAMS_FIXTURE_H_
#define CHX_TESTS_SESSION_PROGRAMS_FIXTURE_H_

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/session/session_fixture.h"

namespace chx::server {

using Floats = std::vector<float>;

inline int64_t Bits(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

class ProgramsTest : public SessionTest {
 protected:
  static command::RunProgram RunOf(std::vector<Handle> arguments, std::vector<Handle> results,
                                   int64_t times = 1) {
    command::RunProgram run;
    run.program = 1;
    run.times = times;
    run.arguments = List(arguments);
    run.results = List(results);
    return run;
  }

  // What the daemon says to the end of a recording: why there is no plan; or the error.
  std::string Record(std::vector<Handle> arguments, std::vector<Command> commands,
                     std::vector<Handle> outputs, Ints slots = {}) {
    Run({command::BeginProgram{1, List(arguments)}});
    Run(std::move(commands));
    Run({command::EndProgram{9, 1, List(outputs), std::move(slots)}});
    const SessionOutput::Value& value = output_.values.back();
    EXPECT_EQ(value.request_id, 9u);
    return value.error != nullptr ? std::string(value.error->status.message()) : value.data;
  }

  static command::DefineMode NoGraph() { return {1, false, {}}; }
  static command::ApplyOp Outside(command::ApplyOp command) {
    command.mode = 1;
    return command;
  }
};

}  // namespace chx::server

#endif  // CHX_TESTS_SESSION_PROGRAMS_FIXTURE_H_
