// Commands from bytes: what a fuzzer's input, or a generator of random numbers, makes of the
// protocol.
#ifndef CHX_TESTS_FUZZ_GENERATOR_H_
#define CHX_TESTS_FUZZ_GENERATOR_H_

#include <deque>
#include <vector>

#include "ops/testing/shape_only.h"
#include "proto/command.h"
#include "tests/fuzz/choices.h"

namespace chx {

// Well-formed commands of any kind with operators, handles, attributes and scalars that nearly
// always exist, in any order; now and then a valid call of an operator with arrays made for it, a
// backward pass that calls a function of the client, or a program.
class CommandGenerator {
 public:
  explicit CommandGenerator(Choices* choices) : choices_(choices) {}
  // False when the choices have come to their end. What the command's data points to lives for
  // ever.
  bool Next(Command* command);

 private:
  void Plan();

  Choices* const choices_;
  std::deque<Command> planned_;
};

// What generated commands expect: float32 arrays of shape (2, 3) under the handles 1 to 4, the
// first two of which require grad, and 4096 bytes in shared memory under 5.
std::vector<Command> InitialArrays();
// Whether a command would only take long.
bool TakesLong(const Command& command);

// The commands of a valid call: arrays under handles from `first` on, and the operator, whose
// outputs follow. Empty if the arrays are large.
std::vector<Command> PlanCall(const Call& call, Handle first);

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_GENERATOR_H_
