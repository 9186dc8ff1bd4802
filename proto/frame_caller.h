// Calls to a daemon over a connection of frames, for who needs no session.
#ifndef CHX_PROTO_FRAME_CALLER_H_
#define CHX_PROTO_FRAME_CALLER_H_

#include <string>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "proto/byte_stream.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx {

// Thread-safe: one call after the other.
class FrameCaller {
 public:
  // Takes a connected, blocking socket, of which nothing has been read or written. Its timeouts are
  // the calls'.
  FrameCaller(int socket, const std::string& token);
  ~FrameCaller();
  FrameCaller(const FrameCaller&) = delete;
  FrameCaller& operator=(const FrameCaller&) = delete;

  // What the daemon answered; UNAVAILABLE, with nothing in *reply: it is gone.
  absl::Status Call(const v1::Call& call, v1::Reply* reply);

 private:
  const int socket_;
  Mutex mutex_;
  SocketStream stream_ ABSL_GUARDED_BY(mutex_);
  FrameReader reader_ ABSL_GUARDED_BY(mutex_);
  std::string buffer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx

#endif  // CHX_PROTO_FRAME_CALLER_H_
