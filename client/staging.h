// Memory that a session and its daemon map, through which values pass in the order of the commands.
#ifndef CHX_CLIENT_STAGING_H_
#define CHX_CLIENT_STAGING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/mutex.h"
#include "client/segments.h"
#include "proto/command.h"

namespace chx {

// An array in shared memory that only the library uses. It has no ArrayBody, which would keep the
// session alive, and goes with the session.
struct Stage {
  Handle handle = 0;  // 0: there is none yet
  MappingPtr mapping;
  char* data = nullptr;
  size_t bytes = 0;
  int refusals = 0;  // transfers that it was not even asked for, since it was refused
};

// Uploads go round in two halves. A half is filled again when the daemon has answered a request
// behind all that it held.
struct UploadStage {
  Mutex mutex;  // taken before the session's; held while it is waited for room in a half
  // Set when the session is closed, perhaps by a signal's handler in that wait: whoever has the
  // mutex then drops the stage.
  std::atomic<bool> dropped{false};
  Stage stage ABSL_GUARDED_BY(mutex);
  int half ABSL_GUARDED_BY(mutex) = 0;
  size_t used ABSL_GUARDED_BY(mutex) = 0;            // of this half
  size_t unsent ABSL_GUARDED_BY(mutex) = 0;          // about
  uint64_t requests[2] ABSL_GUARDED_BY(mutex) = {};  // by half; 0: free
};

// Fetches go round in pieces: the daemon copies some while the client copies others.
struct FetchStage {
  Mutex mutex;
  Stage stage ABSL_GUARDED_BY(mutex);
  bool taken ABSL_GUARDED_BY(mutex) = false;  // by a fetch, which waits without a lock
  bool dropped ABSL_GUARDED_BY(mutex) = false;
};

// memcpy for large values. Beyond what caches hold it writes past them: memory that is going to be
// overwritten is not read first. `whole`: the bytes of which these are a part.
void CopyBulk(char* to, const char* from, size_t bytes, size_t whole);

}  // namespace chx

#endif  // CHX_CLIENT_STAGING_H_
