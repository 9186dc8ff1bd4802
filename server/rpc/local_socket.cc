#include "server/rpc/local_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

// Root may do as it likes with the daemon anyway. Of others the socket's mode lets in the group's
// members only: a process's further groups are not to be asked for here.
bool MayConnect(int connection, const SocketUsers& users, uid_t* uid) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  *uid = peer.uid;
  return peer.uid == geteuid() || peer.uid == 0 || users.group.has_value();
}

}  // namespace

absl::Status MakeSocketFolder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return absl::OkStatus();
  const std::string folder = path.substr(0, slash);
  if (access(folder.c_str(), F_OK) == 0 || mkdir(folder.c_str(), 0700) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  const std::string advice =
      error == ENOENT
          ? absl::StrCat("make it: mkdir -p -m 0700 ", folder)
          : absl::StrCat("let root make it (install -d -m 0700 -o ", geteuid(), " ", folder,
                         "), or leave --listen out: then the socket is in a folder of this user's");
  return absl::UnavailableError(absl::StrCat("cannot listen on unix:", path,
                                             ": there is no folder ", folder,
                                             ", and it cannot be "
                                             "made (",
                                             std::strerror(error), "); ", advice));
}

absl::StatusOr<int> ListenLocally(const std::string& path, int type, const SocketUsers& users) {
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
  // The mode last: until then nobody else may connect.
  const bool shared =
      bound == 0 && (!users.group.has_value() ||
                     (chown(path.c_str(), static_cast<uid_t>(-1), *users.group) == 0 &&
                      chmod(path.c_str(), 0660) == 0));
  if (!shared || listen(listener, 4096) != 0) {
    const int error = errno;
    close(listener);
    return absl::UnavailableError(
        absl::StrCat("cannot listen on unix:", path, ": ", std::strerror(error)));
  }
  return listener;
}

Accepted AcceptLocal(int listener, const SocketUsers& users, int flags, int* connection,
                     uid_t* uid) {
  *connection = accept4(listener, nullptr, nullptr, flags | SOCK_CLOEXEC);
  if (*connection < 0) {
    const bool none = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return none ? Accepted::kNoDescriptor : Accepted::kNobody;
  }
  if (MayConnect(*connection, users, uid)) return Accepted::kConnection;
  close(*connection);
  return Accepted::kNobody;
}

void SpareDescriptor::Give() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

void SpareDescriptor::Refill() {
  if (descriptor_ < 0) descriptor_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) poll(nullptr, 0, 10);
}

}  // namespace chx::server
