// An op stream without its transport: batches in, events out, each exactly once.
#ifndef CHX_SERVER_RPC_OP_STREAM_H_
#define CHX_SERVER_RPC_OP_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/chxd.pb.h"
#include "server/session/session_manager.h"

namespace chx::server {

struct StreamState;
struct RootError;

void FillError(const RootError& error, v1::Error* message);

// One stream of one session; the session's newest is the only one that may change it. Used by one
// thread; several of a session exclude each other by the record's stream_mutex.
class OpStream {
 public:
  // False if the stream is cut.
  using Send = std::function<bool(const v1::Event&)>;

  // `attachment` is SessionManager's.
  OpStream(SessionRecord* record, uint64_t attachment, Send send);

  // Takes over from older streams and sends again what the client may not have seen.
  absl::Status Resume(uint64_t acked_event_seq);
  // Carries out a batch that was not applied before. After an error the stream must end;
  // INVALID_ARGUMENT means that the batch cannot be read, and has been carried out in part.
  absl::Status Apply(const v1::Submit& submit);

 private:
  absl::Status Run(const v1::Submit& submit, StreamState* state);
  // Moves output_ into events behind the first `keep`.
  void Collect(StreamState* state, size_t keep);
  // Sends the events from number `first` on; without any, an acknowledgement if it is due.
  absl::Status Answer(StreamState* state, size_t first);

  SessionRecord* const record_;
  const uint64_t attachment_;
  const Send send_;
  SessionOutput output_;
  v1::Event ack_;
  uint64_t commands_since_ack_ = 0;
  uint64_t bytes_since_ack_ = 0;
};

// What TransportState::Serialize has written of a stream, for the session's next one. Charged to
// the account; kDataLoss if it cannot be read.
absl::StatusOr<std::unique_ptr<TransportState>> ReadStreamState(const MemoryAccountPtr& account,
                                                                absl::string_view data);

// What carries a stream.
struct StreamTransport {
  std::function<bool(v1::Submit*)> read;  // false: the client has ended the stream, or it is cut
  OpStream::Send send;
  std::function<void()> cancel;  // makes both of the above fail; called by other threads
  // Whether the client has left; called by other threads, while a batch runs. May be null.
  std::function<bool()> hung_up;
  std::function<void()> on_draining;  // called by other threads. May be null
};

// Why there is no session of that id.
absl::Status NoSuchSession(SessionManager* manager, const std::string& id);

// Serves the stream of the session that the greeting names, to its end. A batch that cannot be read
// closes the session. `greeting` is overwritten.
absl::Status ServeStream(SessionManager* manager, const StreamTransport& transport,
                         v1::Submit* greeting);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_OP_STREAM_H_
