// What all commands' structs are made of.
//
// Conventions: `result` and `results` are new handles, which the command binds to arrays or to the
// error of its failure; 0 in `results`: not wanted. A command with a `request_id` is answered by a
// value or an error with that id. `location`: a number given by DefineLocation, 0: unknown.
// `mode`: a number given by DefineMode, 0: all graphs record.
#ifndef CHX_PROTO_COMMAND_FIELDS_H_
#define CHX_PROTO_COMMAND_FIELDS_H_

#include <tuple>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "ops/operand.h"
#include "proto/ids.h"

namespace chx {

// An input of an operator as a command has it.
using HandleOperand = BasicOperand<Handle>;

// Whether operators are recorded in one graph.
struct ModeEntry {
  BackpropId backprop_id = 0;
  bool record = false;
};

using Handles = absl::InlinedVector<Handle, 4>;
using ModeEntries = absl::InlinedVector<ModeEntry, 2>;

// Names a command and lists its fields in the order of the wire; the codec, tests and generators
// of commands go through the list.
#define CHX_COMMAND(name, ...)                     \
  static constexpr absl::string_view kName = name; \
  auto Fields() { return std::tie(__VA_ARGS__); }  \
  auto Fields() const { return std::tie(__VA_ARGS__); }

}  // namespace chx

#endif  // CHX_PROTO_COMMAND_FIELDS_H_
