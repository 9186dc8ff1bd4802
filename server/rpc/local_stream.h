// Op streams over sockets beside the daemon's own: what SessionService.Execute is for others,
// without HTTP/2, for processes of the same user.
#ifndef CHX_SERVER_RPC_LOCAL_STREAM_H_
#define CHX_SERVER_RPC_LOCAL_STREAM_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/session/session_manager.h"

namespace chx {

// A thread accepts; each stream has one, which reads, executes and answers.
class LocalStreamServer {
 public:
  // Listens beside each socket of `sockets`.
  static absl::StatusOr<std::unique_ptr<LocalStreamServer>> Start(
      const std::vector<std::string>& sockets, SessionManager* manager);
  // Cuts the streams and waits for what they carry out.
  ~LocalStreamServer();

 private:
  explicit LocalStreamServer(SessionManager* manager) : manager_(manager) {}
  void AcceptLoop();
  void Begin(int connection);
  void Serve(int connection);

  SessionManager* const manager_;
  std::vector<std::string> paths_;
  std::vector<int> listeners_;
  int stop_[2] = {-1, -1};  // a pipe: closing its write end ends the thread
  std::thread acceptor_;

  Mutex mutex_;
  CondVar ended_;
  absl::flat_hash_set<int> connections_ ABSL_GUARDED_BY(mutex_);  // one for each thread
};

}  // namespace chx

#endif  // CHX_SERVER_RPC_LOCAL_STREAM_H_
