#include "client/local_socket.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/strip.h"

namespace chx {

std::string SocketPathOf(const std::string& address) {
  absl::string_view rest = address;
  if (!absl::ConsumePrefix(&rest, "unix:")) return "";
  absl::ConsumePrefix(&rest, "//");
  return std::string(rest);
}

absl::optional<uid_t> PeerOf(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return absl::nullopt;
  return peer.uid;
}

int ConnectLocally(const std::string& path, int type, const absl::optional<uid_t>& owner) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const timeval some_seconds = {5, 0};
  const timeval forever = {0, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &some_seconds, sizeof(some_seconds));  // connect's, too
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    error = errno;
  } else if (owner.has_value() && PeerOf(fd) != owner) {
    error = EACCES;
  }
  if (error != 0) {
    close(fd);
    errno = error;
    return -1;
  }
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &forever, sizeof(forever));
  return fd;
}

}  // namespace chx
