// A daemon that records commands instead of running them, and misbehaves when told to: what the
// client does on the wire can be seen without numerics, and cuts come exactly when a test wants.
#ifndef CHX_CLIENT_TESTING_FAKE_DAEMON_H_
#define CHX_CLIENT_TESTING_FAKE_DAEMON_H_

#include <grpcpp/server.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "proto/chxd.grpc.pb.h"
#include "proto/command.h"

namespace chx {

// Thread-safe. Serves one session at a time.
class FakeDaemon final : public v1::SessionService::Service {
 public:
  // `local`: streams come over a socket beside the daemon's own, if the client can.
  explicit FakeDaemon(bool local = false);
  ~FakeDaemon() override;

  // For the reply of the next Open.
  v1::Limits limits;
  int known_ops = 1 << 20;  // that many of the client's first ones
  // What a kFetch is answered with; zeros of `fetch_bytes` bytes unless set.
  std::function<void(const Command&, v1::FetchedValue*)> answer;
  size_t fetch_bytes = 4;
  bool keep = true;  // false: commands are forgotten once answered

  const std::string& address() const { return address_; }
  // The commands of all batches applied, in order; `kind` only.
  std::vector<Command> Commands() const;
  std::vector<Command> Commands(CommandKind kind) const;
  // Waits up to some seconds for `count` commands of a kind.
  bool WaitFor(CommandKind kind, size_t count) const;
  // Sizes of the applied batches, in bytes.
  std::vector<size_t> BatchSizes() const;

  // Ends the stream that is open. The session can be resumed.
  void CutStream();
  // From now on batches are applied but neither acknowledged nor answered.
  void Mute(bool mute);
  // From now on the session is unknown, as after its lease.
  void ForgetSession();
  // As a killed process: nothing listens any more.
  void Stop();
  int opens() const;
  int resumes() const;
  // Batches that came again although they had been applied.
  int duplicates() const;
  bool attached() const;
  bool closed() const;
  // Streams that were not gRPC's.
  int local_streams() const;

  grpc::Status Open(grpc::ServerContext* context, const v1::OpenRequest* request,
                    v1::OpenReply* reply) override;
  grpc::Status Execute(grpc::ServerContext* context,
                       grpc::ServerReaderWriter<v1::Event, v1::Submit>* stream) override;
  grpc::Status Close(grpc::ServerContext* context, const v1::CloseRequest* request,
                     v1::CloseReply* reply) override;

 private:
  using Cancel = std::function<void()>;
  void ListenLocally();
  void ServeLocally(int connection);
  // One stream, to its end.
  grpc::Status Serve(const std::function<bool(v1::Submit*)>& read,
                     const std::function<bool(const v1::Event&)>& write, const Cancel& cancel);
  // False: the records cannot be decoded.
  bool Apply(const v1::Submit& submit, v1::Event* event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string directory_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  int listener_ = -1;
  std::thread acceptor_;
  std::vector<std::thread> local_threads_;  // the acceptor's until it ends

  mutable Mutex mutex_;
  mutable CondVar changed_;
  // Commands point into the batches.
  std::deque<std::string> batches_ ABSL_GUARDED_BY(mutex_);
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::Event> unacked_events_ ABSL_GUARDED_BY(mutex_);
  const Cancel* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the one that is open
  std::vector<int> connections_ ABSL_GUARDED_BY(mutex_);
  int local_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_batch_seq_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t next_event_seq_ ABSL_GUARDED_BY(mutex_) = 1;
  bool mute_ ABSL_GUARDED_BY(mutex_) = false;
  bool forgotten_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int opens_ ABSL_GUARDED_BY(mutex_) = 0;
  int resumes_ ABSL_GUARDED_BY(mutex_) = 0;
  int duplicates_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace chx

#endif  // CHX_CLIENT_TESTING_FAKE_DAEMON_H_
