#include <memory>

#include "base/mutex.h"
#include "server/rpc/op_stream.h"

namespace chx::server {
namespace {

constexpr size_t kKeptBytes = 64 << 10;

// Lets others reach this stream, for as long as it exists.
class Reach {
 public:
  explicit Reach(const StreamTransport* transport) : transport_(transport) {}
  void Cancel() {
    MutexLock lock(&mutex_);
    if (transport_ != nullptr) transport_->cancel();
  }
  bool HungUp() {
    MutexLock lock(&mutex_);
    return transport_ != nullptr && transport_->hung_up && transport_->hung_up();
  }
  void OnDraining() {
    MutexLock lock(&mutex_);
    if (transport_ != nullptr && transport_->on_draining) transport_->on_draining();
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

absl::Status NoSuchSession(SessionManager* manager, const std::string& id) {
  absl::Status why = manager->WhyGone(id);
  return why.ok() ? absl::NotFoundError("no such session") : why;
}

absl::Status ServeStream(SessionManager* manager, const StreamTransport& transport,
                         v1::Submit* greeting) {
  v1::Submit* const submit = greeting;
  const SessionRecordPtr record = manager->Find(submit->session_id());
  if (record == nullptr) return NoSuchSession(manager, submit->session_id());
  const auto reach = std::make_shared<Reach>(&transport);
  const uint64_t attachment =
      manager->Attach(record, {[reach] { reach->Cancel(); }, [reach] { return reach->HungUp(); },
                               [reach] { reach->OnDraining(); }});
  if (attachment == 0) return NoSuchSession(manager, submit->session_id());
  OpStream op_stream(record.get(), attachment, transport.send);
  absl::Status status = op_stream.Resume(submit->acked_event_seq());
  if (status.ok()) {
    do {
      status = op_stream.Apply(*submit);
      // The message keeps its memory for the next one, unless it was a large one.
      if (submit->commands().capacity() > kKeptBytes) delete submit->release_commands();
    } while (status.ok() && transport.read(submit));
  }
  reach->Disarm();
  manager->Detach(record, attachment);
  // Records that cannot be read leave the session in a state that its client does not know.
  if (status.code() == absl::StatusCode::kInvalidArgument) {
    manager->Close(record->id, kProtocolBroken).status().IgnoreError();
  }
  return status;
}

}  // namespace chx::server
