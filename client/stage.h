// A buffer that a session and its daemon map, through which values pass in the order of the
// commands.
#ifndef CHX_CLIENT_STAGE_H_
#define CHX_CLIENT_STAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "client/connection.h"
#include "client/segments.h"
#include "client/shared_memory.h"
#include "proto/ids.h"

namespace chx {

// An array in shared memory that only the library uses. It has no ArrayBody, which would keep the
// session alive, and goes with the session.
//
// Owned by an UploadStage or a FetchStage, which see to it that one thread uses it.
struct Stage {
  static constexpr size_t kLine = 64;  // bytes; values begin at a multiple
  static constexpr size_t RoundUp(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
  static constexpr size_t RoundDown(size_t bytes) { return bytes / kLine * kLine; }

  static constexpr uint64_t kShareOfMemory = 32;  // of the session's limit, at most this part

  // Allocates it, unless that is done. False if there is no memory for it. An error if the wait was
  // interrupted.
  absl::StatusOr<bool> Open(const Connection& connection, SharedMemory* memory, size_t most_bytes,
                            uint64_t share_of_memory = kShareOfMemory);

  Handle handle = 0;  // 0: not allocated
  MappingPtr mapping;
  char* data = nullptr;
  size_t bytes = 0;
  int refusals = 0;  // transfers that did not even ask for it, since it was refused
};

}  // namespace chx

#endif  // CHX_CLIENT_STAGE_H_
