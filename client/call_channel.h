// A frame connection over which a client makes calls.
#ifndef CHX_CLIENT_CALL_CHANNEL_H_
#define CHX_CLIENT_CALL_CHANNEL_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "client/socket.h"
#include "proto/chxd.pb.h"
#include "proto/frame.h"

namespace chx {

// Used by one thread at a time. Once a function has returned false the connection is cut, and good
// for nothing.
class CallChannel {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The greeting goes along with the first call.
  CallChannel(std::unique_ptr<Socket> socket, const std::string& token);

  // Makes a call and waits for its reply, which may be an error of the daemon's.
  bool Call(const v1::Call& call, v1::Reply* reply, TimePoint deadline);
  // The parts of an upload: the call, then its data, then the end and the reply. A signal's handler
  // may end their waits; interrupted() then says so.
  bool Send(const v1::Call& call);
  bool SendData(absl::string_view data);
  bool Receive(v1::Reply* reply);
  bool interrupted() const { return interrupted_; }
  // The data of a download, after its reply.
  bool ReceiveData(char* out, size_t bytes);

  // For a Link, which takes the connection over.
  Socket& socket() { return *socket_; }
  FrameReader& reader() { return reader_; }

 private:
  // Whether to go on after a wait that has brought nothing.
  bool GoesOn();
  bool WaitForRoom();

  const std::unique_ptr<Socket> socket_;
  FrameReader reader_;
  std::string buffer_;                  // begins with the greeting
  absl::optional<TimePoint> deadline_;  // of Call, which no signal ends
  bool interrupted_ = false;
};

}  // namespace chx

#endif  // CHX_CLIENT_CALL_CHANNEL_H_
