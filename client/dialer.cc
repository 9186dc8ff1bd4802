#include "client/dialer.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/local_socket.h"
#include "client/tls_socket.h"
#include "ops/error.h"

namespace chx {
namespace {

absl::Status Refused(absl::string_view address, absl::string_view why) {
  return MakeError(ErrorKind::kConnection,
                   absl::StrCat("cannot reach chxd at ", address, ": ", why));
}

constexpr char kNobodyListens[] = "chx/nobody-listens";

// From errno. A Unix socket is a file, and is gone with its daemon.
absl::Status Unreachable(const std::string& address, bool is_unix, int error) {
  const char* advice = "";
  if (is_unix && error == ENOENT) {
    advice = ": is chxd running, and is this what its --listen names?";
  } else if (error == ECONNREFUSED) {
    advice = ": no chxd listens there";
  } else if (is_unix && error == EACCES) {
    advice =
        ": a Unix socket is for the daemon's own user, and the group of its --socket-group; "
        "others use TCP and a token";
  } else if (!is_unix && error == ETIMEDOUT) {
    advice = ": is the host up, and does a firewall let the port through?";
  }
  absl::Status status = Refused(address, absl::StrCat(std::strerror(error), advice));
  if (error == ECONNREFUSED || (is_unix && error == ENOENT)) {
    status.SetPayload(kNobodyListens, absl::Cord());
  }
  return status;
}

int MillisecondsTo(Dialer::TimePoint deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

void Set(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A connected socket, or -1 with errno.
int ConnectTcp(const addrinfo& to, Dialer::TimePoint deadline) {
  const int fd = socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int error = connect(fd, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd state = {fd, POLLOUT, 0};
    int ready;
    do {
      ready = poll(&state, 1, MillisecondsTo(deadline));
    } while (ready < 0 && errno == EINTR);
    socklen_t size = sizeof(error);
    error = ETIMEDOUT;
    if (ready > 0) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

Dialer::Dialer(std::string address) : address_(std::move(address)) {}
Dialer::~Dialer() = default;

absl::StatusOr<std::unique_ptr<Dialer>> Dialer::For(const std::string& address,
                                                    const std::string& tls_roots,
                                                    const std::string& tls_cert,
                                                    const std::string& tls_key) {
  if (tls_cert.empty() != tls_key.empty()) {
    return Refused(address, "[connect] tls_cert and tls_key go together");
  }
  if (!tls_cert.empty() && tls_roots.empty()) {
    return Refused(address, "[connect] tls_cert expects tls_roots, too");
  }
  std::unique_ptr<Dialer> dialer(new Dialer(address));
  dialer->path_ = SocketPathOf(address);
  if (!dialer->path_.empty()) return dialer;
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || absl::StartsWith(address, "unix:")) {
    return Refused(address, "expects 'unix:PATH' or 'HOST:PORT'");
  }
  dialer->host_ = address.substr(0, colon);
  dialer->port_ = address.substr(colon + 1);
  std::string& host = dialer->host_;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (!tls_roots.empty()) {
    absl::StatusOr<std::unique_ptr<TlsContext>> tls = TlsContext::Make(tls_roots);
    if (!tls.ok()) return MakeError(ErrorKind::kConnection, tls.status().message());
    dialer->tls_ = *std::move(tls);
    const absl::Status used =
        tls_cert.empty() ? absl::OkStatus() : dialer->tls_->UseCertificate(tls_cert, tls_key);
    if (!used.ok()) return MakeError(ErrorKind::kConnection, used.message());
  }
  return dialer;
}

bool Dialer::NobodyListens(const absl::Status& dialed) {
  return dialed.GetPayload(kNobodyListens).has_value();
}

absl::StatusOr<std::unique_ptr<Socket>> Dialer::Dial(TimePoint deadline) const {
  if (path_.empty()) return DialTcp(deadline);
  const int fd = ConnectLocally(path_, SOCK_STREAM);
  if (fd < 0) return Unreachable(address_, true, errno);
  return std::make_unique<Socket>(fd);
}

absl::StatusOr<std::unique_ptr<Socket>> Dialer::DialTcp(TimePoint deadline) const {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failed = getaddrinfo(host_.c_str(), port_.c_str(), &hints, &list);
  if (failed != 0) {
    return Refused(address_, absl::StrCat(gai_strerror(failed), ": the address is HOST:PORT"));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<const addrinfo*> found;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) found.push_back(one);
  int error = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    // Each that is left gets its part of the time.
    const auto now = std::chrono::steady_clock::now();
    const auto until = now + (deadline - now) / static_cast<int64_t>(found.size() - i);
    const int fd = ConnectTcp(*found[i], until);
    // One that refuses says less than another that does not answer.
    if (fd < 0 && (error == 0 || error == ECONNREFUSED)) error = errno;
    if (fd < 0) continue;
    Set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    Set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    const int third = std::max<int>(1, static_cast<int>(lease_.count() / 3000));
    Set(fd, IPPROTO_TCP, TCP_KEEPIDLE, third);
    Set(fd, IPPROTO_TCP, TCP_KEEPINTVL, third);
    Set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
    Set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
        static_cast<int>(std::clamp<int64_t>(lease_.count() * 2 / 3, 1000, 3600000)));
    if (tls_ != nullptr) {
      absl::StatusOr<std::unique_ptr<Socket>> socket = tls_->Connect(fd, host_, deadline);
      if (!socket.ok()) return Refused(address_, socket.status().message());
      return socket;
    }
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return std::make_unique<Socket>(fd);
  }
  return Unreachable(address_, false, error);
}

}  // namespace chx
