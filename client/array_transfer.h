// Values on their way to and from the daemon.
#ifndef CHX_CLIENT_ARRAY_TRANSFER_H_
#define CHX_CLIENT_ARRAY_TRANSFER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/array.h"
#include "client/command_queue.h"
#include "client/fetch_stage.h"
#include "client/upload_stage.h"

namespace chx {

// Chooses the way that suits a value's size and where it lies: in a command or an answer, through a
// stage, through a shared block, or over a connection of its own.
//
// Owned by a Session. Thread-safe.
class ArrayTransfer {
 public:
  ArrayTransfer(Session* session, Connection* connection, CommandQueue* queue,
                SharedMemory* memory);
  ArrayTransfer(const ArrayTransfer&) = delete;

  // Copies at the call; `data` may be reused when it returns.
  absl::StatusOr<ArrayPtr> Upload(absl::string_view data, Dtype dtype,
                                  absl::Span<const int64_t> shape, DeviceId device);
  // From now on the calling thread's uploads pass through a stage with room for twice so many
  // bytes: they do not wait for what was called before.
  absl::Status UploadAhead(size_t bytes);
  // Waits for the elements, in C order.
  absl::Status Fetch(const ArrayBody& array, void* out, size_t bytes);
  // The session is closed: its memory is to be the system's again, whoever still has arrays of it.
  void Drop();

 private:
  // The array's handle.
  absl::StatusOr<Handle> UploadLarge(absl::string_view data, const ArraySpec& spec);
  absl::StatusOr<Handle> UploadByCall(absl::string_view data, const ArraySpec& spec);
  absl::Status FetchLarge(const ArrayBody& array, char* out, size_t bytes);
  absl::Status FetchByCall(const ArrayBody& array, char* out, size_t bytes);
  absl::Status UnlessClosed(absl::Status transferred) const;

  Session& session_;
  Connection& connection_;
  CommandQueue& queue_;
  SharedMemory& memory_;
  UploadStage upload_stage_;
  UploadStage loader_stage_;
  FetchStage fetch_stage_;
};

}  // namespace chx

#endif  // CHX_CLIENT_ARRAY_TRANSFER_H_
