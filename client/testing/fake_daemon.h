// A daemon that records commands instead of running them, and misbehaves when told to: what the
// client does on the wire can be seen without numerics, and cuts come exactly when a test wants.
#ifndef CHX_CLIENT_TESTING_FAKE_DAEMON_H_
#define CHX_CLIENT_TESTING_FAKE_DAEMON_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "proto/chxd.pb.h"
#include "proto/command.h"
#include "proto/frame.h"

namespace chx {

// Thread-safe. Serves one session at a time.
class FakeDaemon {
 public:
  FakeDaemon();
  ~FakeDaemon();

  // For the reply of the next Open.
  v1::Limits limits;
  int known_ops = 1 << 20;  // that many of the client's first ones
  // What requests are answered with; zeros of `fetch_bytes` bytes unless set.
  std::function<void(const Command&, v1::FetchedValue*)> answer;
  size_t fetch_bytes = 4;
  bool keep = true;  // false: commands are forgotten once answered

  const std::string& address() const { return address_; }
  // The commands of all batches applied, in order.
  std::vector<Command> Commands() const;
  // Those of one kind.
  template <typename C>
  std::vector<C> CommandsOf() const {
    std::vector<C> found;
    for (const Command& command : Commands()) {
      if (const C* c = std::get_if<C>(&command)) found.push_back(*c);
    }
    return found;
  }
  // Waits up to some seconds for `count` commands of a kind.
  template <typename C>
  bool WaitFor(size_t count) const {
    return WaitUntil([count, this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      size_t found = 0;
      for (const Command& command : commands_) found += std::holds_alternative<C>(command) ? 1 : 0;
      return found >= count;
    });
  }
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
  // As one that listens again, with the sessions that it had: a network that was away.
  void Start();
  // From now on that many bytes come from each new connection, and then a cut.
  void CutConnectionsAfter(int64_t bytes);
  int opens() const;
  int resumes() const;
  // Batches that came again although they had been applied.
  int duplicates() const;
  bool attached() const;
  bool closed() const;
  // The numbers of batches that cancels named.
  std::vector<uint64_t> cancels() const;
  // What came by uploads of this session, by handle.
  std::map<uint64_t, std::string> uploads() const;

 private:
  void Accept();
  void ServeConnection(int connection);
  // One stream, to its end.
  absl::Status Serve(int connection, FrameReader* reader, const v1::Submit& greeting);
  bool Answer(int connection, FrameReader* reader, const v1::Call& call);
  absl::Status Open(const v1::OpenRequest& request, v1::OpenReply* reply);
  // False: some seconds have passed. Calls `done` with the mutex held.
  bool WaitUntil(const std::function<bool()>& done) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool ReceiveUpload(const v1::UploadHeader& header, FrameReader* reader);
  // False: the records cannot be decoded.
  bool Apply(const v1::Submit& submit, v1::Event* event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string directory_;
  std::string address_;
  int listener_ = -1;
  std::thread acceptor_;
  std::vector<std::thread> threads_;  // the acceptor's until it ends

  mutable Mutex mutex_;
  mutable CondVar changed_;
  // Commands point into the batches.
  std::deque<std::string> batches_ ABSL_GUARDED_BY(mutex_);
  std::deque<Command> commands_ ABSL_GUARDED_BY(mutex_);
  std::deque<v1::Event> unacked_events_ ABSL_GUARDED_BY(mutex_);
  int stream_ ABSL_GUARDED_BY(mutex_) = -1;  // the connection of the one that is open
  std::vector<int> connections_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> cancels_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::string> uploads_ ABSL_GUARDED_BY(mutex_);
  int64_t cut_after_ ABSL_GUARDED_BY(mutex_) = -1;
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
