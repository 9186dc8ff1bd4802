// Steps that are recorded and run, or sent again and again.
#ifndef CHX_TESTS_FUZZ_STEP_PLANS_H_
#define CHX_TESTS_FUZZ_STEP_PLANS_H_

#include <vector>

#include "proto/command.h"
#include "tests/fuzz/choices.h"

namespace chx {

// New handles that a plan uses, at most.
inline constexpr Handle kStepHandles = 16;

// A program: it begins, has a step, ends and runs; often with something wrong in it. Works on
// InitialArrays(), and on handles from `first` on.
std::vector<Command> PlanProgram(Choices* choices, Handle first);
// A step that a client sends so often that the daemon recognises it, with something else in it now
// and then.
std::vector<Command> PlanLoop(Choices* choices, Handle first);
// Whether a run is one that only takes long: neither few times nor more than are allowed.
bool IsLongRun(const command::RunProgram& run);

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_STEP_PLANS_H_
