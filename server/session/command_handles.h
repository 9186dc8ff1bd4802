// Which handles a command of any kind names. Derived from its fields, so that a new kind needs
// nothing here; step_commands.h has what the kinds of a step work on.
#ifndef CHX_SERVER_SESSION_COMMAND_HANDLES_H_
#define CHX_SERVER_SESSION_COMMAND_HANDLES_H_

#include <tuple>
#include <utility>
#include <variant>

#include "server/session/command_traits.h"
#include "server/session/programs.h"

namespace chx::server {

// The field of a command that is a request's number; null: it has none.
template <typename C>
const uint64_t* RequestField(const C& c) {
  if constexpr (Has_request_id<C>::value) return &c.request_id;
  return nullptr;
}

// Calls `use` with every number that may be a handle: one too many only costs a chance to reuse
// memory.
template <typename Use>
struct NamedField {
  Use use;
  const uint64_t* request;  // which is no handle, but may be the same number as one
  template <typename T>
  void operator()(const T& /*field*/) const {}
  void operator()(const Handle& handle) const {
    if (&handle != request) use(handle);
  }
  void operator()(const Handles& handles) const {
    for (Handle handle : handles) use(handle);
  }
};

template <typename Use>
void ForEachNamed(const Command& command, Use use) {
  if (const auto* apply = std::get_if<command::ApplyOp>(&command)) {
    for (const HandleOperand& operand : apply->inputs) use(operand.array());
    return;
  }
  const auto visit = [&](const auto& c) {
    const NamedField<Use> use_field{use, RequestField(c)};
    std::apply([&](const auto&... fields) { (use_field(fields), ...); }, c.Fields());
  };
  std::visit(visit, command);
}

// Whether a command names a handle that no client has: what it would find there is another's.
inline bool NamesOthersHandle(const Command& command) {
  uint64_t all = 0;
  ForEachNamed(command, [&all](Handle handle) { all |= handle; });
  const auto results = [](const auto& c) { return ResultsOf(c); };
  for (Handle result : std::visit(results, command)) all |= result;
  return IsOfProgram(all);
}

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_COMMAND_HANDLES_H_
