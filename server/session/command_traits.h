// What several files of Session ask about commands.
#ifndef CHX_SERVER_SESSION_COMMAND_TRAITS_H_
#define CHX_SERVER_SESSION_COMMAND_TRAITS_H_

#include <cstdint>
#include <string>

#include "proto/command.h"
#include "server/engine/memory_budget.h"

namespace chx {

// Whether the command binds its `handle`, not its outputs.
inline bool IsUpload(const Command& command) {
  return command.kind == CommandKind::kUpload || command.kind == CommandKind::kUploadFrom;
}

// What a string has in the heap.
inline int64_t TextBytes(size_t size) {
  return size < sizeof(std::string) / 2 ? 0 : static_cast<int64_t>(size) + 1 + kAllocationBytes;
}

}  // namespace chx

#endif  // CHX_SERVER_SESSION_COMMAND_TRAITS_H_
