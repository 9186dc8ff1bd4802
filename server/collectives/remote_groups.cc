#include "server/collectives/remote_groups.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

// For connections to other daemons, and for the meeting place's word on who is missing.
constexpr std::chrono::milliseconds kConnectPatience(10000);
constexpr std::chrono::milliseconds kAnswerPatience(2000);

groups::Request JoinRequest(const std::string& tenant, const std::string& address,
                            const GroupRequest& request) {
  groups::Request message;
  groups::Request::Join& join = *message.mutable_join();
  join.set_tenant(tenant);
  join.set_name(request.name);
  join.set_secret(request.secret);
  join.set_size(request.size);
  join.set_rank(request.rank);
  join.set_address(address);
  return message;
}

}  // namespace

RemoteGroups::~RemoteGroups() {
  const MutexLock lock(&mutex_);
  for (const auto& entry : forming_) {
    if (entry.second->link != nullptr) entry.second->link->channel().Cut();
  }
  while (threads_ > 0) changed_.wait(mutex_);
}

RemoteGroups::FormingPtr RemoteGroups::Enter(const Key& key, const GroupRequest& request,
                                             bool* first) {
  const MutexLock lock(&mutex_);
  ForgetKept();
  FormingPtr& entry = forming_[key];
  *first = entry == nullptr;
  if (*first) {
    entry = std::make_shared<Forming>();
    entry->key = key;
    entry->name = request.name;
    entry->size = static_cast<int>(request.size);
  }
  ++entry->waiting;
  return entry;
}

void RemoteGroups::Connect(const std::string& address, const FormingPtr& forming) {
  absl::StatusOr<OwnedFd> socket = MakeError(ErrorKind::kConnection, "");
  {
    const WaitScope others_compute;
    socket = network_.ConnectAboutGroups(
        address, std::chrono::steady_clock::now() + std::min(timeout_, kConnectPatience));
  }
  if (!socket.ok()) {
    return End(MakeError(KindOf(socket.status()),
                         absl::StrCat("[join_group] cannot meet other daemons at ",
                                      socket.status().message())),
               nullptr, forming.get());
  }
  auto link = std::make_shared<MemberLink>(std::move(*socket));
  const MutexLock lock(&mutex_);
  forming->link = link;
  ++threads_;
  // Copies that are not const: the thread gives them up.
  std::thread([this, link = std::move(link), forming = FormingPtr(forming), address]() mutable {
    Follow(std::move(link), std::move(forming), address);
    const MutexLock thread_lock(&mutex_);
    --threads_;
    changed_.notify_all();
  }).detach();
  changed_.notify_all();
}

void RemoteGroups::End(const absl::Status& failed, std::shared_ptr<MemoryEngine> engine,
                       Forming* forming) {
  const MutexLock lock(&mutex_);
  if (!forming->over()) {
    forming->failed = failed;
    forming->engine = std::move(engine);
  }
  const auto it = forming_.find(forming->key);
  if (it != forming_.end() && it->second.get() == forming) forming_.erase(it);
  changed_.notify_all();
}

void RemoteGroups::Wait(const GroupRequest& request, const FormingPtr& forming) {
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (bool given_up = false; !forming->over();) {
    groups::Request message;
    if (WaitIsStopped()) {
      // Its client may come back, as another session.
      message.mutable_withdraw()->set_rank(request.rank);
      forming->link->channel().Send(message);
      return;
    }
    if (std::chrono::steady_clock::now() < deadline) {
      changed_.wait_until(mutex_, deadline);
    } else if (given_up) {
      forming->failed = MakeError(
          ErrorKind::kTimeout,
          absl::StrCat("[join_group] the daemon at ", request.address, " does not answer"));
    } else {
      given_up = true;
      message.mutable_give_up()->set_within(absl::FormatDuration(absl::FromChrono(timeout_)));
      forming->link->channel().Send(message);
      deadline += kAnswerPatience;
    }
  }
}

void RemoteGroups::Leave(const FormingPtr& forming) {
  const MutexLock lock(&mutex_);
  if (--forming->waiting > 0) return;
  // Nobody is left to be a rank, or all have what they came for.
  if (!forming->over() && forming->link != nullptr) forming->link->channel().Cut();
  const auto it = forming_.find(forming->key);
  if (it != forming_.end() && it->second == forming) forming_.erase(it);
}

absl::StatusOr<std::shared_ptr<CollectiveEngine>> RemoteGroups::Form(const std::string& tenant,
                                                                     const GroupRequest& request) {
  CHX_RETURN_IF_ERROR(network_.CheckMeetingPlace(request.address));
  bool first = false;
  const FormingPtr forming =
      Enter(Key(tenant, request.name, request.secret, request.address), request, &first);
  if (first) Connect(request.address, forming);
  {
    const WaitScope others_compute;
    const MutexLock lock(&mutex_);
    while (forming->link == nullptr && !forming->over()) changed_.wait(mutex_);
    if (!forming->over()) {
      forming->link->channel().Send(JoinRequest(tenant, network_.address(), request));
    }
  }
  Wait(request, forming);
  std::shared_ptr<MemoryEngine> engine;
  absl::Status failed;
  {
    const MutexLock lock(&mutex_);
    engine = forming->engine;
    failed = forming->failed;
  }
  Leave(forming);
  if (engine != nullptr) return std::shared_ptr<CollectiveEngine>(std::move(engine));
  CHX_RETURN_IF_ERROR(failed);
  return CheckNotStopped("join_group");
}

void RemoteGroups::WakeStopped() {
  const MutexLock lock(&mutex_);
  ForgetKept();
  changed_.notify_all();
}

void RemoteGroups::Follow(std::shared_ptr<MemberLink> link, FormingPtr forming,
                          const std::string& address) {
  groups::Notice notice;
  while (link->channel().Receive(&notice)) {
    if (notice.has_broken()) {
      link->Break(notice.broken().why());
    } else if (notice.has_failed() && forming != nullptr) {
      const uint32_t kind = std::min<uint32_t>(notice.failed().kind(), kNumErrorKinds - 1);
      End(MakeError(static_cast<ErrorKind>(kind), notice.failed().message()), nullptr,
          forming.get());
      return;
    } else if (notice.has_formed() && forming != nullptr) {
      auto engine = Build(notice.formed(), *forming, link);
      if (!engine.ok()) {
        link->Tell(std::string(engine.status().message()));
        return End(engine.status(), nullptr, forming.get());
      }
      const bool alone = notice.formed().daemons_size() == 1;
      if (!alone) link->Attach(engine->get());
      End(absl::OkStatus(), *std::move(engine), forming.get());
      if (alone) return;  // its ranks need nobody
      forming = nullptr;  // the sessions' alone from now on
    }
  }
  if (forming != nullptr) {
    End(MakeError(ErrorKind::kConnection,
                  absl::StrCat("[join_group] the daemon at ", address,
                               ", where the process group meets, has gone")),
        nullptr, forming.get());
  }
  link->Break(absl::StrCat("the daemon at ", address, ", where it met, has gone"));
}

absl::StatusOr<std::vector<OwnedFd>> RemoteGroups::ConnectAll(const groups::Notice::Formed& formed,
                                                              int self) {
  const Deadline deadline = std::chrono::steady_clock::now() + std::min(timeout_, kConnectPatience);
  PeerPurpose purpose;
  std::copy(formed.group().begin(), formed.group().end(), purpose.group.begin());
  purpose.from = self;
  std::vector<OwnedFd> sockets(static_cast<size_t>(formed.daemons_size()));
  int missing = self;  // lower positions connect to higher ones
  Mutex mutex;
  CondVar come;
  network_.ExpectGroup(purpose.group, formed.key(), [&](int from, OwnedFd socket) {
    const MutexLock lock(&mutex);
    if (from < 0 || from >= self) return;
    sockets[static_cast<size_t>(from)] = std::move(socket);
    --missing;
    come.notify_all();
  });
  absl::Status status;
  for (int i = self + 1; i < formed.daemons_size() && status.ok(); ++i) {
    absl::StatusOr<OwnedFd> socket =
        network_.ConnectInGroup(formed.daemons(i).address(), purpose, formed.key(), deadline);
    status = socket.status();
    if (socket.ok()) sockets[static_cast<size_t>(i)] = *std::move(socket);
  }
  {
    const MutexLock lock(&mutex);
    while (status.ok() && missing > 0) {
      if (come.wait_until(mutex, deadline) != std::cv_status::timeout) continue;
      for (int i = 0; i < self && status.ok(); ++i) {
        if (sockets[static_cast<size_t>(i)].get() >= 0) continue;
        status = MakeError(ErrorKind::kTimeout,
                           absl::StrCat("the daemon at ", formed.daemons(i).address(),
                                        " did not connect in time"));
      }
    }
  }
  network_.ForgetGroup(purpose.group);
  if (!status.ok()) {
    return MakeError(KindOf(status), absl::StrCat("[join_group] the daemons of the process group "
                                                  "cannot reach each other: ",
                                                  status.message()));
  }
  return sockets;
}

absl::StatusOr<std::shared_ptr<MemoryEngine>> RemoteGroups::Build(
    const groups::Notice::Formed& formed, const Forming& forming,
    const std::shared_ptr<MemberLink>& link) {
  GroupLayout layout;
  layout.self = -1;
  layout.daemon_of.assign(static_cast<size_t>(forming.size), -1);
  bool valid = formed.group().size() == sizeof(GroupNumber);
  for (int i = 0; i < formed.daemons_size(); ++i) {
    const auto& daemon = formed.daemons(i);
    if (daemon.address() == network_.address()) layout.self = i;
    layout.addresses.push_back(daemon.address());
    layout.ranks.emplace_back(daemon.ranks().begin(), daemon.ranks().end());
    valid = valid && daemon.ranks_size() > 0;
    for (const int rank : daemon.ranks()) {
      valid = valid && rank >= 0 && rank < forming.size;
      if (valid) layout.daemon_of[static_cast<size_t>(rank)] = i;
    }
  }
  const auto& of = layout.daemon_of;
  if (!valid || layout.self < 0 || std::find(of.begin(), of.end(), -1) != of.end()) {
    return MakeError(ErrorKind::kConnection,
                     absl::StrCat("[join_group] two daemons call themselves ", network_.address(),
                                  ", or one has changed its name: see --peer-address"));
  }
  if (layout.num_daemons() == 1) {
    return std::make_shared<MemoryEngine>(forming.name, forming.size, timeout_);
  }
  CHX_ASSIGN_OR_RETURN(std::vector<OwnedFd> sockets, ConnectAll(formed, layout.self));
  std::vector<int> descriptors;
  for (OwnedFd& socket : sockets) descriptors.push_back(socket.Release());
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Mesh> mesh, make_mesh_(layout.self, descriptors));
  auto exchange =
      std::make_unique<PeerExchange>(forming.name, std::move(layout), std::move(mesh), timeout_);
  return std::make_shared<MemoryEngine>(
      forming.name, timeout_, std::move(exchange), link,
      [this](std::unique_ptr<PeerExchange> kept) { Keep(std::move(kept)); });
}

void RemoteGroups::Keep(std::unique_ptr<PeerExchange> exchange) {
  const MutexLock lock(&mutex_);
  ForgetKept();
  kept_.push_back({std::move(exchange), std::chrono::steady_clock::now() + timeout_});
}

void RemoteGroups::ForgetKept() {
  const auto now = std::chrono::steady_clock::now();
  kept_.remove_if(
      [now](const Kept& kept) { return kept.until < now || !kept.exchange->HasUnsent(); });
}

}  // namespace chx::server
