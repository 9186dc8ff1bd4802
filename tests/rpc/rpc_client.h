// Calls a daemon as a client that knows nothing but the protocol.
#ifndef CHX_TESTS_RPC_RPC_CLIENT_H_
#define CHX_TESTS_RPC_RPC_CLIENT_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx::server {

// A directory for one socket, with a path that is short enough for one, as Bazel's are not.
class SocketDirectory {
 public:
  SocketDirectory();
  ~SocketDirectory();
  std::string Socket() const { return path_ + "/chxd.sock"; }

 private:
  std::string path_;
};

// A connected socket to "unix:PATH" or "127.0.0.1:PORT", on which a read waits no longer than a
// test may hang; -1 if nobody listens there.
int ConnectTo(const std::string& address);

// A frame connection.
class FrameClient {
 public:
  // Sends a Hello with the token.
  explicit FrameClient(const std::string& address, const std::string& token = "");
  ~FrameClient();

  // The daemon's status; UNAVAILABLE "cut" if there is no reply.
  absl::Status Call(const v1::Call& call, v1::Reply* reply);
  absl::Status ReadReply(v1::Reply* reply);
  bool Write(FrameKind kind, const google::protobuf::MessageLite& message);
  bool WriteData(absl::string_view data);
  bool WriteRaw(absl::string_view bytes) { return SendAll(&stream_, bytes); }
  // The next frame; false at a cut.
  bool Read(FrameKind* kind, absl::string_view* payload);
  // Of the next frame, which must be an event; else false, and end() says why.
  bool ReadEvent(v1::Event* event);
  // Reads to the stream's end: what the daemon said last, or OK.
  absl::Status End();
  int fd() const { return fd_; }

 private:
  const int fd_;
  SocketStream stream_;
  FrameReader reader_;
  std::string buffer_;
  absl::Status end_;
};

// One call on a connection of its own.
absl::Status CallOnce(const std::string& address, const std::string& token, const v1::Call& call,
                      v1::Reply* reply);
v1::ListSessionsReply SessionsAt(const std::string& address, const std::string& token = "");

// A session of one client.
class RpcClient {
 public:
  explicit RpcClient(std::string address, std::string token = "")
      : address_(std::move(address)), token_(std::move(token)) {}

  absl::Status Open();
  absl::Status Close(v1::CloseReply* reply);
  // A new stream, which takes over.
  void Connect();
  // False if the stream is cut.
  bool Send(std::string commands);
  bool Send(uint64_t batch_seq, std::string commands);
  bool Read(v1::Event* event) { return stream_->ReadEvent(event); }
  // Sends no more, and reads to the end: why the daemon ended the stream, or OK.
  absl::Status FinishStream();
  // Waits for the daemon's end of the stream: what a client has left that is gone is not carried
  // out.
  absl::Status StreamEnd();
  FrameClient& stream() { return *stream_; }

  absl::Status Upload(uint64_t handle, const std::vector<float>& values, size_t chunk_bytes,
                      bool again = false);
  absl::Status Download(uint64_t handle, std::vector<float>* values);

  const std::string& session_id() const { return session_id_; }
  void set_session_id(std::string id) { session_id_ = std::move(id); }
  v1::OpenReply opened;
  uint64_t acked_event_seq = 0;

 private:
  std::string address_;
  std::string token_;
  std::string session_id_;
  std::unique_ptr<FrameClient> stream_;
  bool first_ = true;
  uint64_t next_batch_seq_ = 1;
};

}  // namespace chx::server

#endif  // CHX_TESTS_RPC_RPC_CLIENT_H_
