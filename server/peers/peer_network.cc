#include "server/peers/peer_network.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ops/error.h"
#include "server/log/log.h"
#include "server/peers/sockets.h"

namespace chx::server {
namespace {

// Strangers that may be connected at once, and for how long.
constexpr size_t kMaxGreeting = 256;
constexpr std::chrono::seconds kPatience(5);
// And daemons, for all groups that meet here.
constexpr size_t kMaxThreads = 4096;
// That look for silent daemons at once: as many of these are found at least, if there are so many.
constexpr size_t kLookers = 8;

absl::Status DaemonEnds() { return MakeError(ErrorKind::kConnection, "the daemon ends"); }

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

}  // namespace

absl::StatusOr<std::unique_ptr<PeerNetwork>> PeerNetwork::Start(PeerOptions options, Serve serve) {
  std::unique_ptr<PeerNetwork> network(new PeerNetwork(std::move(options), std::move(serve)));
  CHX_RETURN_IF_ERROR(network->Listen());
  network->thread_ = std::thread([self = network.get()] { self->Accept(); });
  return network;
}

absl::Status PeerNetwork::Listen() {
  int port = 0;
  CHX_ASSIGN_OR_RETURN(listener_, ListenAt(options_.listen, &port));
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::InternalError("no pipe");
  stop_reading_ = OwnedFd(ends[0]);
  stop_writing_ = OwnedFd(ends[1]);
  if (options_.address.empty()) options_.address = options_.listen;
  if (absl::EndsWith(options_.address, ":0")) {
    options_.address = absl::StrCat(HostOf(options_.address), ":", port);
  }
  return absl::OkStatus();
}

absl::Status PeerNetwork::CheckMeetingPlace(const std::string& address) const {
  if (address == options_.address) return absl::OkStatus();
  for (const std::string& pattern : options_.peers) {
    if (fnmatch(pattern.c_str(), address.c_str(), 0) == 0) return absl::OkStatus();
  }
  return ValueError("[join_group] expects an address that the daemon's --peers name (",
                    absl::StrJoin(options_.peers, ", "), "), got '", address, "'");
}

absl::StatusOr<OwnedFd> PeerNetwork::ConnectAboutGroups(const std::string& address,
                                                        Deadline deadline) {
  return ConnectInGroup(address, {}, options_.secret, deadline);
}

absl::StatusOr<OwnedFd> PeerNetwork::ConnectInGroup(const std::string& address,
                                                    const PeerPurpose& purpose,
                                                    const std::string& key, Deadline deadline) {
  const std::string derived = purpose.about_groups() ? key : DeriveKey(options_.secret, key);
  std::minstd_rand random(std::random_device{}());
  while (true) {
    CHX_ASSIGN_OR_RETURN(OwnedFd socket, ConnectTo(address, deadline, stop_reading_.get()));
    bool unheard = false;
    absl::StatusOr<Proved> proved = DaemonEnds();
    UnlessStopped(socket.get(), [&] {
      proved = IntroduceTo(socket.get(), purpose, options_.encrypted, derived, deadline, &unheard);
    });
    if (proved.ok()) {
      KeepAlive(socket.get());
      return PlainEnd(std::move(socket), EncryptedLinks::Side::kConnects, *proved);
    }
    // It has too many that it does not know yet: a thousand daemons that begin, or strangers.
    const std::chrono::milliseconds pause(20 + random() % 200);
    const Deadline again = std::chrono::steady_clock::now() + pause;
    if (!unheard || again > deadline || !Pause(again)) {
      return MakeError(KindOf(proved.status()),
                       absl::StrCat(address, ": ", proved.status().message()));
    }
  }
}

bool PeerNetwork::Pause(Deadline until) {
  const MutexLock lock(&mutex_);
  while (!stopped_ && changed_.wait_until(mutex_, until) != std::cv_status::timeout) {
  }
  return !stopped_;
}

absl::StatusOr<OwnedFd> PeerNetwork::PlainEnd(OwnedFd socket, EncryptedLinks::Side side,
                                              const Proved& proved) const {
  if (encryption_ == nullptr) return socket;
  return encryption_->Encrypt(std::move(socket), side, proved.connection_key);
}

// Shared by who wants to know and by threads that may still wait for a name when it is over.
struct PeerNetwork::Look {
  std::vector<std::string> addresses;
  std::chrono::milliseconds patience;  // with each
  Deadline last;                       // nobody is asked for the first time after that
  Mutex mutex;
  CondVar changed;
  size_t threads ABSL_GUARDED_BY(mutex) = 0;
  size_t next ABSL_GUARDED_BY(mutex) = 0;
  std::vector<size_t> silent ABSL_GUARDED_BY(mutex);
};

// What comes at all, if only the end of the connection, is an answer: a crowd may be there.
bool PeerNetwork::IsSilent(const std::string& address, Deadline deadline) {
  int refused = 0;
  const absl::StatusOr<OwnedFd> socket =
      ConnectTo(address, deadline, stop_reading_.get(), &refused);
  if (!socket.ok()) {
    return refused == ETIMEDOUT || refused == ECONNREFUSED || refused == EHOSTUNREACH;
  }
  absl::Status status;
  bool unheard = false;
  UnlessStopped(socket->get(), [&] {
    status = IntroduceTo(socket->get(), {}, options_.encrypted, options_.secret, deadline, &unheard)
                 .status();
  });
  return KindOf(status) == ErrorKind::kTimeout;
}

void PeerNetwork::LookAround(Look* look) {
  while (true) {
    size_t position = 0;
    {
      const MutexLock lock(&look->mutex);
      if (look->next == look->addresses.size() || std::chrono::steady_clock::now() >= look->last) {
        break;
      }
      position = look->next++;
    }
    if (!IsSilent(look->addresses[position], std::chrono::steady_clock::now() + look->patience)) {
      continue;
    }
    const MutexLock lock(&look->mutex);
    look->silent.push_back(position);
  }
  const MutexLock lock(&look->mutex);
  --look->threads;
  look->changed.notify_all();
}

std::vector<size_t> PeerNetwork::FindSilent(const std::vector<std::string>& addresses,
                                            std::chrono::milliseconds patience) {
  const auto look = std::make_shared<Look>();
  look->addresses = addresses;
  look->patience = patience;
  look->last = std::chrono::steady_clock::now() + patience;
  for (size_t i = 0; i < std::min(kLookers, addresses.size()); ++i) {
    const MutexLock lock(&mutex_);
    if (stopped_ || threads_ >= kMaxThreads) break;
    const MutexLock look_lock(&look->mutex);
    try {
      std::thread([this, look] {
        LookAround(look.get());
        const MutexLock end(&mutex_);
        --threads_;
        changed_.notify_all();
      }).detach();
    } catch (const std::system_error&) {
      break;  // those that there are look
    }
    ++threads_;
    ++look->threads;
  }
  const Deadline until = look->last + patience;
  const MutexLock lock(&look->mutex);
  while (look->threads > 0) {
    if (look->changed.wait_until(look->mutex, until) == std::cv_status::timeout) break;
  }
  std::vector<size_t> silent = look->silent;
  std::sort(silent.begin(), silent.end());
  return silent;
}

void PeerNetwork::ExpectGroup(const GroupNumber& group, const std::string& key, Take take) {
  const MutexLock lock(&mutex_);
  expected_[group] = {DeriveKey(options_.secret, key), std::move(take), {}};
  changed_.notify_all();
}

void PeerNetwork::ForgetGroup(const GroupNumber& group) {
  const MutexLock lock(&mutex_);
  expected_.erase(group);
}

void PeerNetwork::Accept() {
  pollfd ready[] = {{listener_.get(), POLLIN, 0}, {stop_reading_.get(), POLLIN, 0}};
  while (true) {
    if (poll(ready, 2, -1) < 0 && errno != EINTR) return;
    if (ready[1].revents != 0) return;
    OwnedFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) {
      // Without descriptors the connection stays there, and poll would return at once.
      if (errno == EMFILE || errno == ENFILE) poll(nullptr, 0, 100);
      continue;
    }
    const MutexLock lock(&mutex_);
    if (stopped_ || greeting_ >= kMaxGreeting || threads_ >= kMaxThreads) continue;
    const int fd = socket.get();
    try {
      std::thread([this, fd] { Attend(OwnedFd(fd)); }).detach();
    } catch (const std::system_error&) {
      continue;  // no thread: it is refused
    }
    static_cast<void>(socket.Release());
    ++greeting_;
    ++threads_;
    open_.push_back(fd);
  }
}

absl::StatusOr<std::string> PeerNetwork::KeyOf(const PeerPurpose& purpose, Deadline deadline) {
  if (purpose.about_groups()) return options_.secret;
  const MutexLock lock(&mutex_);
  while (!stopped_ && expected_.count(purpose.group) == 0) {
    if (changed_.wait_until(mutex_, deadline) == std::cv_status::timeout) break;
  }
  const auto it = expected_.find(purpose.group);
  if (it == expected_.end()) return MakeError(ErrorKind::kConnection, "no such group");
  return it->second.key;
}

void PeerNetwork::Give(const PeerPurpose& purpose, OwnedFd socket) {
  const MutexLock lock(&mutex_);
  const auto it = expected_.find(purpose.group);
  if (it == expected_.end()) return;
  std::vector<int>& come = it->second.come;
  if (std::find(come.begin(), come.end(), purpose.from) != come.end()) return;
  come.push_back(purpose.from);
  it->second.take(purpose.from, std::move(socket));
}

absl::StatusOr<PeerPurpose> PeerNetwork::Greet(OwnedFd* socket) {
  const int fd = socket->get();
  const Deadline deadline = std::chrono::steady_clock::now() + kPatience;
  const absl::StatusOr<Proved> proved = LetIn(
      fd, options_.encrypted, [&](const PeerPurpose& wanted) { return KeyOf(wanted, deadline); },
      deadline);
  {
    const MutexLock lock(&mutex_);
    --greeting_;
    ShutDownNoMore(fd);
    if (stopped_) return DaemonEnds();
  }
  CHX_RETURN_IF_ERROR(proved.status());
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  KeepAlive(fd);
  CHX_ASSIGN_OR_RETURN(*socket,
                       PlainEnd(std::move(*socket), EncryptedLinks::Side::kAccepts, *proved));
  return proved->purpose;
}

void PeerNetwork::UnlessStopped(int socket, absl::FunctionRef<void()> fn) {
  {
    const MutexLock lock(&mutex_);
    if (stopped_) return;
    open_.push_back(socket);
  }
  fn();
  const MutexLock lock(&mutex_);
  ShutDownNoMore(socket);
}

void PeerNetwork::ShutDownNoMore(int socket) {
  open_.erase(std::find(open_.begin(), open_.end(), socket));
}

void PeerNetwork::Attend(OwnedFd socket) {
  const absl::StatusOr<PeerPurpose> purpose = Greet(&socket);
  if (!purpose.ok()) {
    static LogLimit limit;
    Log(&limit, LogLevel::kWarning, "a connection for daemons was refused",
        {{"reason", purpose.status().message()}});
  } else if (purpose->about_groups()) {
    UnlessStopped(socket.get(), [&] { serve_(socket.get()); });
  } else {
    Give(*purpose, std::move(socket));
  }
  const MutexLock lock(&mutex_);
  --threads_;
  changed_.notify_all();
}

bool PeerNetwork::stopped() const {
  const MutexLock lock(&mutex_);
  return stopped_;
}

void PeerNetwork::Stop() {
  {
    const MutexLock lock(&mutex_);
    stopped_ = true;
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    changed_.notify_all();
  }
  stop_writing_ = OwnedFd();
  if (thread_.joinable()) thread_.join();
  const MutexLock lock(&mutex_);
  while (threads_ > 0) changed_.wait(mutex_);
}

}  // namespace chx::server
