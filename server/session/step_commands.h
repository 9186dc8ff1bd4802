// The kinds of commands that a step may have, and what is asked about them.
#ifndef CHX_SERVER_SESSION_STEP_COMMANDS_H_
#define CHX_SERVER_SESSION_STEP_COMMANDS_H_

#include <type_traits>

#include "proto/command.h"

namespace chx::server {

template <typename C>
constexpr bool IsOneOf() {
  return false;
}
template <typename C, typename First, typename... Rest>
constexpr bool IsOneOf() {
  return std::is_same_v<C, First> || IsOneOf<C, Rest...>();
}

// Those that are no part of a step: they define what all commands use, tell the client what its own
// step depends on, or end the recording.
template <typename C>
constexpr bool kApart =
    IsOneOf<C, command::DefineMode, command::DefineLocation, command::BeginProgram,
            command::EndProgram, command::RunProgram, command::ReleaseProgram,
            command::ExplainProgram, command::NoteGenerator, command::QueryGraphs>();
// Those that a step is made of.
template <typename C>
constexpr bool kKept = IsOneOf<C, command::ApplyOp, command::Release, command::RequireGrad,
                               command::Backward, command::Grad, command::ReduceBackward,
                               command::SetGrad, command::GetGrad, command::HoldArray>();
// Backward passes.
template <typename C>
constexpr bool kPass = IsOneOf<C, command::Backward, command::Grad, command::ReduceBackward>();
// Those whose result the program holds.
template <typename C>
constexpr bool kConstant = IsOneOf<C, command::Upload, command::UploadFrom, command::UploadPart>();

// Whether the client hears of its end: a pass that may call functions of the client. No step has
// it, as each run would answer again.
template <typename C>
bool IsAnswered(const C& c) {
  if constexpr (kPass<C>) return c.request_id != 0;
  return false;
}

// Calls fn(handle) for each array that a command of a step works on; what it releases is not used.
// If the command is not const, fn may take the handle by reference and change it.
template <typename C, typename Fn>
void ForEachUse(C& c, Fn fn) {
  using Kind = std::remove_const_t<C>;
  const auto each = [&fn](auto& handles) {
    for (auto& handle : handles) {
      if (handle != 0) fn(handle);
    }
  };
  if constexpr (std::is_same_v<Kind, command::ApplyOp>) {
    for (auto& input : c.inputs) {
      if (!input.is_array()) continue;
      Handle handle = input.array();
      fn(handle);
      if constexpr (!std::is_const_v<C>) input = HandleOperand(handle);
    }
  } else if constexpr (std::is_same_v<Kind, command::Backward>) {
    each(c.outputs);
  } else if constexpr (std::is_same_v<Kind, command::Grad>) {
    each(c.outputs);
    each(c.inputs);
    each(c.output_grads);
  } else if constexpr (std::is_same_v<Kind, command::ReduceBackward>) {
    each(c.outputs);
    each(c.parameters);
  } else if constexpr (IsOneOf<Kind, command::SetGrad, command::RequireGrad, command::GetGrad>()) {
    fn(c.handle);
    if constexpr (std::is_same_v<Kind, command::SetGrad>) {
      if (c.grad != 0) fn(c.grad);
    }
  }
}

// 0 if it has none.
template <typename C>
uint16_t ModeOf(const C& c) {
  if constexpr (kPass<C> || std::is_same_v<C, command::ApplyOp>) return c.mode;
  return 0;
}

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_STEP_COMMANDS_H_
