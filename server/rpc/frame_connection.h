// One frame connection, for its thread and for those who tell it something or cut it.
#ifndef CHX_SERVER_RPC_FRAME_CONNECTION_H_
#define CHX_SERVER_RPC_FRAME_CONNECTION_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "proto/byte_stream.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx::server {

// How long a frame that is too large for a small buffer may take: without a byte, and in all. Later
// its connection is cut, so that others have its memory; its client resumes.
struct FramePatience {
  std::chrono::milliseconds stall{10000};
  std::chrono::milliseconds whole_frame{120000};
};

// Owns the socket. Its thread reads; any thread may send.
class FrameConnection {
 public:
  FrameConnection(int socket, FrameBudget* budget, FramePatience patience = {});

  FrameReader& reader() { return reader_; }
  // False: the connection is cut. Waits while the peer does not read.
  bool Send(FrameKind kind, const google::protobuf::MessageLite& message);
  bool SendReply(const absl::Status& status, v1::Reply* reply);
  bool SendData(absl::string_view data);
  // From now on an op stream: a draining daemon tells its client, now or with what is sent next.
  void BeginStream() { EnterStream(true); }
  void EndStream() { EnterStream(false); }
  // Of whoever reads: SocketStream::StayAwake.
  void StayAwake(bool awake) { stream_.StayAwake(awake); }
  void TellDraining();

  // Zero: no timeout.
  void SetReceiveTimeout(std::chrono::milliseconds timeout) const;
  void SetSendTimeout(std::chrono::milliseconds timeout) const;
  // Whether the peer is gone: what it has left in the socket is not worth running. One that only
  // lost its connection sends it again.
  bool HungUp() const;
  // Ends all waits; from any thread, as long as the object exists.
  void Cut() const;
  // Lets a peer that still writes read what was sent last: a close with unread bytes may lose it.
  void Linger();

 private:
  // The budget, for this connection: who has a part of it must go on sending, or others wait for
  // nothing.
  class Share final : public FrameBudget {
   public:
    Share(FrameConnection* connection, FrameBudget* budget)
        : connection_(connection), budget_(budget) {}
    bool Reserve(size_t bytes, const void* reader) override;
    void Release(size_t bytes, const void* reader) override;

   private:
    FrameConnection* const connection_;
    FrameBudget* const budget_;
  };

  void EnterStream(bool streaming);
  bool SendPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(write_mutex_);

  // Closes the socket after all else is gone: the reader gives back its share by it.
  struct Closer {
    ~Closer();
    const int socket;
  };

  const int socket_;
  const FramePatience patience_;
  const Closer closer_;
  SocketStream stream_;
  Share share_;
  FrameReader reader_;
  Mutex write_mutex_;
  std::string buffer_ ABSL_GUARDED_BY(write_mutex_);
  Mutex state_mutex_;  // never held while something waits
  bool streaming_ ABSL_GUARDED_BY(state_mutex_) = false;
  bool tell_ ABSL_GUARDED_BY(state_mutex_) = false;  // that it drains
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_FRAME_CONNECTION_H_
