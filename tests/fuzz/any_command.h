// One command of any kind, with contents that are often valid.
#ifndef CHX_TESTS_FUZZ_ANY_COMMAND_H_
#define CHX_TESTS_FUZZ_ANY_COMMAND_H_

#include "proto/command.h"
#include "tests/fuzz/choices.h"

namespace chx {

// The handle of InitialArrays()' shared memory, and its size in bytes.
inline constexpr Handle kStage = 5;
inline constexpr int64_t kStageBytes = 4096;

// What its texts and data point to lives for ever.
Command AnyCommand(Choices* choices);

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_ANY_COMMAND_H_
