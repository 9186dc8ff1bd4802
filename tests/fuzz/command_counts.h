// How often each kind of command and each operator was made.
#ifndef CHX_TESTS_FUZZ_COMMAND_COUNTS_H_
#define CHX_TESTS_FUZZ_COMMAND_COUNTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/command.h"

namespace chx {

struct CommandCounts {
  std::array<uint64_t, kNumCommandKinds> kinds = {};  // by position in Command
  std::vector<uint64_t> operators;                    // by id

  void Add(const Command& command);
  uint64_t total() const;
  // A line for each kind, the number of operators and which of them are rarest.
  std::string ToString() const;
};

// Of the kind at a position in Command.
absl::string_view NameOfKind(size_t kind);

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_COMMAND_COUNTS_H_
