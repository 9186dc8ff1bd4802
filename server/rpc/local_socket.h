// The daemon's Unix sockets: for processes of its own user, root's, and those of a group that its
// operator names, on the same host.
#ifndef CHX_SERVER_RPC_LOCAL_SOCKET_H_
#define CHX_SERVER_RPC_LOCAL_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

namespace chx::server {

// Makes the folder that a socket is to be in, for its user alone, if only that one is missing: /run
// is empty after each start of the machine. Errors say what to do.
absl::Status MakeSocketFolder(const std::string& path);

// Who may connect beside the daemon's own user and root.
struct SocketUsers {
  absl::optional<gid_t> group;  // its members, whatever else they are; none: nobody
};

// A listening, non-blocking socket with mode 0600 or, for a group, 0660. `type` is SOCK_STREAM or
// SOCK_SEQPACKET. What lies at `path` is removed: the caller has seen that nobody listens there.
absl::StatusOr<int> ListenLocally(const std::string& path, int type, const SocketUsers& users = {});

// Accepts the next connection, with accept4's `flags`, and says whose it is. kNobody: none, or one
// of somebody who may not. kNoDescriptor: there is one, for which the process or the system has no
// descriptor; it stays in the queue.
enum class Accepted { kConnection, kNobody, kNoDescriptor };
Accepted AcceptLocal(int listener, const SocketUsers& users, int flags, int* connection,
                     uid_t* uid);

// A descriptor kept for when there are no others, so that whoever connects then can be refused
// instead of being left in a queue, which would keep poll busy. Used by one thread.
class SpareDescriptor {
 public:
  SpareDescriptor() { Refill(); }
  ~SpareDescriptor() { Give(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  // Frees it for the next call that needs one.
  void Give();
  // Takes it back. Without success, waits a little.
  void Refill();

 private:
  int descriptor_ = -1;
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_LOCAL_SOCKET_H_
