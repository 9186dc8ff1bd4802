// All sessions of a daemon, by their unguessable ids; frees those whose lease has run out.
#ifndef CHX_SERVER_SESSION_SESSION_MANAGER_H_
#define CHX_SERVER_SESSION_SESSION_MANAGER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/session/session.h"

namespace chx {

struct ManagerOptions {
  SessionLimits session;
  std::chrono::milliseconds lease{30000};  // how long a session lives without a stream
  size_t max_sessions = 1024;
};

// What a transport keeps for a session from one stream to the next.
struct TransportState {
  virtual ~TransportState() = default;
};

// A session and what only the manager and the transport know about it. The transport serialises
// batches by `stream_mutex`.
struct SessionRecord {
  std::string id;  // 16 random bytes
  std::string client_name;
  std::unique_ptr<Session> session;
  std::chrono::steady_clock::time_point opened;

  Mutex stream_mutex;                       // held while a batch is applied
  std::atomic<uint64_t> last_batch_seq{0};  // written under stream_mutex
  std::unique_ptr<TransportState> transport ABSL_GUARDED_BY(stream_mutex);
  // Held while an array is sent: its copy is outside of the quota, so there is one at a time.
  Mutex download_mutex;

  // Guarded by the manager's mutex.
  uint64_t attachment = 0;  // 0: no stream; else which one
  std::function<void()> cancel_stream;
  std::chrono::steady_clock::time_point detached;
};
using SessionRecordPtr = std::shared_ptr<SessionRecord>;

// Thread-safe.
class SessionManager {
 public:
  SessionManager(const Devices* devices, const ManagerOptions& options);
  ~SessionManager();

  // `share`: see Session.
  absl::StatusOr<SessionRecordPtr> Open(std::string client_name, bool share = false);
  // Null for an id that doesn't exist, without a hint why.
  SessionRecordPtr Find(const std::string& id);
  // Makes a stream the session's only one; an older one is cancelled. Returns its attachment, a
  // larger number than all before, or 0 if the session has been freed.
  uint64_t Attach(const SessionRecordPtr& record, std::function<void()> cancel_stream);
  // The lease starts to run, unless another stream has taken over.
  void Detach(const SessionRecordPtr& record, uint64_t attachment);
  // Frees the session at once; its unread errors are returned. kNotFound if there is none.
  absl::StatusOr<std::vector<SessionOutput::Error>> Close(const std::string& id);
  std::vector<SessionRecordPtr> List();
  bool attached(const SessionRecordPtr& record);
  const ManagerOptions& options() const { return options_; }
  uint64_t epoch() const { return epoch_; }
  const Devices& devices() const { return *devices_; }

 private:
  void ReapLoop();

  const Devices* const devices_;
  const ManagerOptions options_;
  const uint64_t epoch_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_attachment_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<std::string, SessionRecordPtr> sessions_ ABSL_GUARDED_BY(mutex_);
  std::thread reaper_;
};

}  // namespace chx

#endif  // CHX_SERVER_SESSION_SESSION_MANAGER_H_
