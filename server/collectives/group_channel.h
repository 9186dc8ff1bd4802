// Messages about a group over a connection between daemons.
#ifndef CHX_SERVER_COLLECTIVES_GROUP_CHANNEL_H_
#define CHX_SERVER_COLLECTIVES_GROUP_CHANNEL_H_

#include <sys/socket.h>

#include <string>

#include "base/mutex.h"
#include "proto/frame.h"
#include "server/collectives/group_messages.pb.h"

namespace chx::server {

// The socket is not owned. One thread receives; any may send, and cut.
class GroupChannel {
 public:
  static constexpr size_t kMaxMessage = 1 << 20;

  explicit GroupChannel(int socket)
      : socket_(socket), in_(socket), out_(socket), reader_(&in_, kMaxMessage) {}

  // Does not wait: whoever does not read loses the connection. Called with locks that many need.
  void Send(const google::protobuf::MessageLite& message) {
    const MutexLock lock(&mutex_);
    const auto do_not_wait = [] { return false; };
    if (!WriteFrame(&out_, FrameKind::kMessage, message, &buffer_, do_not_wait)) Cut();
  }
  template <typename Message>
  bool Receive(Message* message) {
    FrameKind kind;
    absl::string_view payload;
    return reader_.Next(&kind, &payload, FrameReader::OnTimeout::kWaitOn) ==
               FrameReader::Result::kFrame &&
           kind == FrameKind::kMessage &&
           message->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
  }
  void Cut() const { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
  SocketStream in_, out_;
  FrameReader reader_;
  Mutex mutex_;
  std::string buffer_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_GROUP_CHANNEL_H_
