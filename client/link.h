// A connection that is a session's op stream.
#ifndef CHX_CLIENT_LINK_H_
#define CHX_CLIENT_LINK_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "client/call_channel.h"
#include "proto/chxd.pb.h"

namespace chx {

// One thread at a time writes, and one reads; any may cancel.
class Link {
 public:
  // The first batch that is written is the greeting: it names the session.
  explicit Link(std::unique_ptr<CallChannel> channel) : channel_(std::move(channel)) {}

  // False: the stream is cut. Waits, without end, while the daemon takes nothing.
  bool Write(const v1::Submit& batch);
  // Waits until a Write of an ordinary batch would not, or the time is over; returns whether there
  // is room. What the daemon says meanwhile is taken in, unless another thread reads: it may be
  // waiting for that, and reads nothing itself till then. Any thread may call it.
  bool WaitForRoom(int timeout_ms);
  // Whether the daemon has read all that was written; any thread may ask.
  bool AllTaken() const { return channel_->socket().AllTaken(); }
  // kNothing: there is nothing yet, and a while has passed or a signal come. kOn never gives up,
  // and kNot does not wait at all.
  enum class Got { kEvent, kCut, kNothing };
  enum class Wait { kOn, kAWhile, kNot };
  Got Read(v1::Event* event, Wait wait);
  // After a Read that found a cut: why.
  absl::Status Finish() const { return end_; }
  // Ends the stream.
  void Cancel() { channel_->socket().Cut(); }

 private:
  const std::unique_ptr<CallChannel> channel_;
  Mutex reading_;  // for the channel's reader
  std::string buffer_;
  absl::Status end_ = absl::UnavailableError("the connection is cut");
};

}  // namespace chx

#endif  // CHX_CLIENT_LINK_H_
