#include "server/front/listeners.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace chx::server {
namespace {

struct AddressFree {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

void SetPort(sockaddr* address, int port) {
  const in_port_t number = htons(static_cast<uint16_t>(port));
  if (address->sa_family == AF_INET) reinterpret_cast<sockaddr_in*>(address)->sin_port = number;
  if (address->sa_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(address)->sin6_port = number;
}

int PortOf(int socket) {
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(own.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(own).sin_port
                                        : reinterpret_cast<sockaddr_in6&>(own).sin6_port);
}

// -1, with errno.
int ListenOne(const addrinfo& info) {
  const int listener =
      socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
  if (listener < 0) return -1;
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener, info.ai_addr, info.ai_addrlen) == 0 && listen(listener, 4096) == 0) {
    return listener;
  }
  const int error = errno;
  close(listener);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<int> ListenOn(const std::string& address, std::vector<int>* sockets) {
  const size_t colon = address.rfind(':');
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) host = absl::StripSuffix(host, "]");
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(std::string(host).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", gai_strerror(error),
                     "; --listen expects a name or address of this machine"));
  }
  const std::unique_ptr<addrinfo, AddressFree> list(found);
  int port = 0;
  int failed = 0;
  for (addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (port != 0) SetPort(each->ai_addr, port);
    const int listener = ListenOne(*each);
    if (listener >= 0) {
      sockets->push_back(listener);
      port = PortOf(listener);
    } else if (failed == 0 || errno == EADDRINUSE) {
      failed = errno;
    }
  }
  // A machine without IPv6 still has a localhost; a port that is taken is an error anyway.
  if (port == 0 || failed == EADDRINUSE) {
    const char* const advice =
        failed == EADDRINUSE      ? "; another program listens on this port: choose another"
        : failed == EADDRNOTAVAIL ? "; --listen expects a name or address of this machine"
                                  : "";
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address, ": ", std::strerror(failed), advice));
  }
  return port;
}

}  // namespace chx::server
