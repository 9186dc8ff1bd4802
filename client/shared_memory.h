// Arrays in memory that a session and its daemon both map.
#ifndef CHX_CLIENT_SHARED_MEMORY_H_
#define CHX_CLIENT_SHARED_MEMORY_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/command_queue.h"
#include "client/connection.h"
#include "client/segments.h"
#include "ops/array_spec.h"
#include "proto/shared_block.h"

namespace chx {

// A block of memory as it is mapped here.
struct MappedBlock {
  SharedBlock block;
  MappingPtr mapping;
  char* data = nullptr;  // the block's first byte
};

// Asks the daemon for blocks and maps them. Each function waits for an answer.
//
// Owned by a Session. Thread-safe: it has no state of its own.
class SharedMemory {
 public:
  SharedMemory(Connection* connection, CommandQueue* queue)
      : connection_(*connection), queue_(*queue) {}
  SharedMemory(const SharedMemory&) = delete;

  // The memory of an array itself. May be interrupted.
  absl::StatusOr<MappedBlock> Share(Handle array);
  // A new array of unspecified elements, in C order. `populate`: all of it will be used, soon. May
  // be interrupted.
  absl::StatusOr<MappedBlock> Allocate(const ArraySpec& spec, bool populate, Handle* array);
  // Another array over the memory of a shared one; its handle. kValue if kernels cannot work with
  // such strides or offset.
  absl::StatusOr<Handle> Alias(Handle array, const ArraySpec& spec);

  // Copies through a block that lives for one transfer.
  absl::StatusOr<Handle> Upload(absl::string_view data, const ArraySpec& spec);
  absl::Status Fetch(Handle array, const ArraySpec& spec, void* out);
  // Copies elements that lie in shared memory in C order.
  absl::Status CopyFrom(const SegmentOffset& elements, char* out, size_t bytes);

 private:
  absl::StatusOr<MappedBlock> Map(const SharedBlock& block, bool populate);

  Connection& connection_;
  CommandQueue& queue_;
};

}  // namespace chx

#endif  // CHX_CLIENT_SHARED_MEMORY_H_
