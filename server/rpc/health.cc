#include "server/rpc/health.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <iostream>

#include "absl/strings/strip.h"
#include "proto/chxd.pb.h"
#include "proto/frame_caller.h"

namespace chx::server {
namespace {

constexpr timeval kTimeout = {2, 0};

// A connected socket, or -1.
int Connected(int family, const sockaddr* address, socklen_t size) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));  // connect's, too
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  if (connect(fd, address, size) == 0) return fd;
  close(fd);
  return -1;
}

int ConnectTo(absl::string_view address) {
  if (absl::ConsumePrefix(&address, "unix:")) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    if (address.size() >= sizeof(name.sun_path)) return -1;
    std::memcpy(name.sun_path, address.data(), address.size());
    return Connected(AF_UNIX, reinterpret_cast<const sockaddr*>(&name), sizeof(name));
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return -1;
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(std::string(host).c_str(), std::string(address.substr(colon + 1)).c_str(), &hints,
                  &found) != 0) {
    return -1;
  }
  int fd = -1;
  for (const addrinfo* one = found; one != nullptr && fd < 0; one = one->ai_next) {
    fd = Connected(one->ai_family, one->ai_addr, one->ai_addrlen);
  }
  freeaddrinfo(found);
  return fd;
}

}  // namespace

int CheckHealth(const std::string& address, const std::string& token) {
  v1::Call call;
  call.mutable_health();
  v1::Reply reply;
  absl::Status status = absl::UnavailableError("nobody listens");
  if (const int fd = ConnectTo(address); fd >= 0)
    status = FrameCaller(fd, token).Call(call, &reply);
  const bool serving = status.ok() && reply.health().serving();
  std::cout << (serving              ? "SERVING"
                : reply.has_status() ? reply.status().message()
                : status.ok()        ? "NOT_SERVING"
                                     : "UNREACHABLE")
            << std::endl;
  return serving ? 0 : 1;
}

}  // namespace chx::server
