#include "server/peers/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/error.h"

namespace chx::server {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status ConnectionError(const std::string& address, absl::string_view why) {
  return MakeError(ErrorKind::kConnection, absl::StrCat(address, ": ", why));
}

absl::StatusOr<AddressList> Resolve(const std::string& address, bool listens) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return ConnectionError(address, "expects HOST:PORT");
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const std::string name(host);
  const int failed = getaddrinfo(name.empty() ? nullptr : name.c_str(),
                                 address.substr(colon + 1).c_str(), &hints, &found);
  if (failed != 0) return ConnectionError(address, gai_strerror(failed));
  return AddressList(found, &freeaddrinfo);
}

int PortOf(const sockaddr_storage& name) {
  if (name.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(name).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(name).sin_port);
}

// 0, or errno.
int ConnectBy(int socket, const addrinfo& info, Deadline deadline, int stop) {
  if (connect(socket, info.ai_addr, info.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  pollfd ready[] = {{socket, POLLOUT, 0}, {stop, POLLIN, 0}};
  if (poll(ready, 2, static_cast<int>(std::max<int64_t>(left.count(), 0))) < 1) return ETIMEDOUT;
  if (ready[1].revents != 0) return ECANCELED;
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

absl::StatusOr<OwnedFd> ListenAt(const std::string& address, int* port) {
  CHX_ASSIGN_OR_RETURN(const AddressList list, Resolve(address, true));
  OwnedFd listener(
      socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, list->ai_protocol));
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  if (bind(listener.get(), list->ai_addr, list->ai_addrlen) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
    return ConnectionError(address, std::strerror(errno));
  }
  *port = PortOf(name);
  return listener;
}

absl::StatusOr<OwnedFd> ConnectTo(const std::string& address, Deadline deadline, int stop,
                                  int* refused) {
  if (refused != nullptr) *refused = 0;
  CHX_ASSIGN_OR_RETURN(const AddressList list, Resolve(address, false));
  int error = 0;
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    OwnedFd fd(
        socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol));
    error = fd.get() < 0 ? errno : ConnectBy(fd.get(), *info, deadline, stop);
    if (error != 0) continue;
    fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
  }
  if (refused != nullptr) *refused = error;
  return ConnectionError(address, std::strerror(error));
}

void KeepAlive(int socket) {
  const int on = 1;
  const int idle_seconds = 10;
  const int interval_seconds = 5;
  const int probes = 3;
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_seconds, sizeof(interval_seconds));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

}  // namespace chx::server
