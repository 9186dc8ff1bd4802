#include <memory>

#include "base/mutex.h"
#include "proto/wire.h"
#include "server/rpc/op_stream.h"

namespace chx {
namespace {

// Lets another stream cancel this one, for as long as it exists.
class Canceller {
 public:
  explicit Canceller(const StreamTransport* transport) : transport_(transport) {}
  void Cancel() {
    MutexLock lock(&mutex_);
    if (transport_ != nullptr) transport_->cancel();
  }
  void Disarm() {
    MutexLock lock(&mutex_);
    transport_ = nullptr;
  }

 private:
  Mutex mutex_;
  const StreamTransport* transport_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

grpc::Status NoSuchSession() {
  return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such session");
}

grpc::Status ServeStream(SessionManager* manager, const StreamTransport& transport,
                         v1::Submit* greeting) {
  v1::Submit* const submit = greeting;
  const SessionRecordPtr record = manager->Find(submit->session_id());
  if (record == nullptr) return NoSuchSession();
  const auto canceller = std::make_shared<Canceller>(&transport);
  const uint64_t attachment = manager->Attach(record, [canceller] { canceller->Cancel(); });
  if (attachment == 0) return NoSuchSession();
  OpStream op_stream(record.get(), attachment, transport.send);
  absl::Status status = op_stream.Resume(submit->acked_event_seq());
  if (status.ok()) {
    do {
      status = op_stream.Apply(*submit);
    } while (status.ok() && transport.read(submit));
  }
  canceller->Disarm();
  manager->Detach(record, attachment);
  // Records that cannot be read leave the session in a state that its client does not know.
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    manager->Close(record->id).status().IgnoreError();
  }
  return wire::ToGrpc(status);
}

}  // namespace chx
