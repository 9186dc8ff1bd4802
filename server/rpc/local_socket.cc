#include "server/rpc/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace chx {
namespace {

bool IsSameUser(int connection) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == geteuid();
}

}  // namespace

absl::StatusOr<int> ListenLocally(const std::string& path, int type) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the path is too long: ", path));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int listener = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return absl::UnavailableError("cannot make a socket");
  unlink(path.c_str());
  const mode_t old_mask = umask(0177);
  const int bound = bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  umask(old_mask);
  if (bound != 0 || listen(listener, 64) != 0) {
    close(listener);
    return absl::UnavailableError(absl::StrCat("cannot listen on ", path));
  }
  return listener;
}

int AcceptSameUser(int listener, int flags) {
  const int connection = accept4(listener, nullptr, nullptr, flags | SOCK_CLOEXEC);
  if (connection < 0) {
    // Out of descriptors, perhaps for longer: no spin.
    if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, 10);
    return -1;
  }
  if (IsSameUser(connection)) return connection;
  close(connection);
  return -1;
}

}  // namespace chx
