#include "server/collectives/remote_groups.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/collectives/silent_daemons.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

// For connections to other daemons, and for the meeting place's word on who is missing.
constexpr std::chrono::milliseconds kConnectPatience(10000);
constexpr std::chrono::milliseconds kAnswerPatience(2000);

// Each has threads and connections.
constexpr int kMaxGroupsOfTenant = 128;
constexpr size_t kMaxGroupsOfDaemon = 512;

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

absl::StatusOr<RemoteGroups::FormingPtr> RemoteGroups::Enter(const Key& key,
                                                             const GroupRequest& request) {
  const MutexLock lock(&mutex_);
  FormingPtr& entry = forming_[key];
  if (entry == nullptr) {
    const absl::Status started = Begin(key, request, &entry);
    if (!started.ok()) {
      forming_.erase(key);
      return started;
    }
  }
  ++entry->waiting;
  return entry;
}

absl::Status RemoteGroups::Begin(const Key& key, const GroupRequest& request, FormingPtr* entry) {
  int& of_tenant = groups_[std::get<0>(key)];
  if (of_tenant >= kMaxGroupsOfTenant || threads_ >= kMaxGroupsOfDaemon) {
    return MemoryError("[join_group] a daemon has at most ", kMaxGroupsOfDaemon,
                       " groups with other daemons, and ", kMaxGroupsOfTenant, " of a tenant");
  }
  auto forming = std::make_shared<Forming>();
  forming->key = key;
  forming->size = static_cast<int>(request.size);
  try {
    std::thread([this, forming]() mutable {
      const std::string tenant = std::get<0>(forming->key);
      Run(std::move(forming));
      const MutexLock lock(&mutex_);
      --threads_;
      if (--groups_[tenant] == 0) groups_.erase(tenant);
      changed_.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return MemoryError("[join_group] there is no thread for another group: ", error.what());
  }
  ++threads_;
  ++of_tenant;
  *entry = std::move(forming);
  return absl::OkStatus();
}

void RemoteGroups::Run(FormingPtr forming) {
  const std::string address = std::get<3>(forming->key);
  absl::StatusOr<OwnedFd> socket = network_.ConnectAboutGroups(
      address, std::chrono::steady_clock::now() + std::min(timeout_, kConnectPatience));
  if (!socket.ok()) {
    return End(MakeError(KindOf(socket.status()),
                         absl::StrCat("[join_group] cannot meet other daemons at ",
                                      socket.status().message())),
               nullptr, forming.get());
  }
  auto link = std::make_shared<MemberLink>(std::move(*socket));
  {
    const MutexLock lock(&mutex_);
    if (forming->over() || forming->waiting == 0) return;  // nobody waits any more
    forming->link = link;
    changed_.notify_all();
  }
  Follow(std::move(link), std::move(forming), address);
}

void RemoteGroups::End(const absl::Status& failed, std::shared_ptr<MemoryEngine> engine,
                       Forming* forming) {
  const MutexLock lock(&mutex_);
  if (!forming->over()) {
    forming->failed = failed;
    forming->engine = std::move(engine);
  }
  Forget(*forming);
}

void RemoteGroups::Wait(const std::string& tenant, const GroupRequest& request,
                        const FormingPtr& forming) {
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  auto deadline = std::chrono::steady_clock::now() + timeout_;
  bool joined = false;
  for (bool given_up = false; !forming->over();) {
    groups::Request message;
    if (WaitIsStopped()) {
      // Its client may come back, as another session.
      if (!joined) return;
      message.mutable_withdraw()->set_rank(request.rank);
      forming->link->channel().Send(message);
      return;
    }
    if (!joined && forming->link != nullptr) {
      joined = true;
      forming->link->channel().Send(JoinRequest(tenant, network_.address(), request));
    } else if (std::chrono::steady_clock::now() < deadline || forming->link == nullptr) {
      // Connecting has a deadline of its own.
      changed_.wait_until(mutex_, std::max(deadline, std::chrono::steady_clock::now() +
                                                         std::chrono::milliseconds(100)));
    } else if (given_up) {
      forming->failed = MakeError(
          ErrorKind::kTimeout,
          absl::StrCat("[join_group] the daemon at ", request.address, " does not answer"));
      forming->link->channel().Cut();
      Forget(*forming);
    } else {
      given_up = true;
      message.mutable_give_up()->set_within(absl::FormatDuration(absl::FromChrono(timeout_)));
      forming->link->channel().Send(message);
      deadline += kAnswerPatience;
    }
  }
}

void RemoteGroups::Forget(const Forming& forming) {
  const auto it = forming_.find(forming.key);
  if (it != forming_.end() && it->second.get() == &forming) forming_.erase(it);
  changed_.notify_all();
}

void RemoteGroups::Leave(const FormingPtr& forming) {
  const MutexLock lock(&mutex_);
  if (--forming->waiting > 0) return;
  // Nobody is left to be a rank, or all have what they came for.
  if (!forming->over() && forming->link != nullptr) forming->link->channel().Cut();
  Forget(*forming);
}

absl::StatusOr<std::shared_ptr<CollectiveEngine>> RemoteGroups::Form(const std::string& tenant,
                                                                     const GroupRequest& request) {
  CHX_RETURN_IF_ERROR(network_.CheckMeetingPlace(request.address));
  ForgetKept();
  CHX_ASSIGN_OR_RETURN(const FormingPtr forming,
                       Enter(Key(tenant, request.name, request.secret, request.address), request));
  Wait(tenant, request, forming);
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
  ForgetKept();
  const MutexLock lock(&mutex_);
  changed_.notify_all();
}

void RemoteGroups::Follow(std::shared_ptr<MemberLink> link, FormingPtr forming,
                          const std::string& address) {
  groups::Notice notice;
  while (link->channel().Receive(&notice)) {
    if (notice.has_broken()) {
      link->Break(notice.broken().why(), notice.broken().finished());
    } else if (notice.has_failed() && forming != nullptr) {
      const uint32_t kind = std::min<uint32_t>(notice.failed().kind(), kNumErrorKinds - 1);
      End(MakeError(static_cast<ErrorKind>(kind), notice.failed().message()), nullptr,
          forming.get());
      return;
    } else if (notice.has_formed() && forming != nullptr) {
      auto engine = Build(notice.formed(), *forming, link);
      if (!engine.ok()) {
        link->Tell(std::string(engine.status().message()), 0);
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
  link->Break(absl::StrCat("the daemon at ", address, ", where it met, has gone"), 0);
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
  // Without the network's lock, under which they come.
  const auto wait_until = [&](Deadline until) {
    const MutexLock lock(&mutex);
    while (missing > 0 && come.wait_until(mutex, until) != std::cv_status::timeout) {
    }
    return missing == 0;
  };
  constexpr std::chrono::milliseconds kLook(100);  // how often for the daemon's end
  while (status.ok() && !wait_until(std::min(deadline, std::chrono::steady_clock::now() + kLook))) {
    if (network_.stopped()) {
      status = MakeError(ErrorKind::kConnection, "the daemon ends");
    } else if (std::chrono::steady_clock::now() >= deadline) {
      const MutexLock lock(&mutex);
      int absent = 0;
      while (absent < self && sockets[static_cast<size_t>(absent)].get() >= 0) ++absent;
      if (absent == self) continue;  // the last one has just come
      status = MakeError(ErrorKind::kTimeout,
                         absl::StrCat("the daemon at ", formed.daemons(absent).address(),
                                      " did not connect in time"));
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
  const std::string& name = std::get<1>(forming.key);
  GroupLayout layout;
  layout.self = -1;
  layout.daemon_of.assign(static_cast<size_t>(forming.size), -1);
  bool valid = formed.group().size() == sizeof(GroupNumber);
  for (int i = 0; i < formed.daemons_size(); ++i) {
    const auto& daemon = formed.daemons(i);
    const bool self = daemon.address() == network_.address();
    valid = valid && (!self || layout.self < 0);
    if (self) layout.self = i;
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
    return std::make_shared<MemoryEngine>(name, forming.size, timeout_);
  }
  CHX_ASSIGN_OR_RETURN(std::vector<OwnedFd> sockets, ConnectAll(formed, layout.self));
  std::vector<int> descriptors;
  descriptors.reserve(sockets.size());
  for (OwnedFd& socket : sockets) descriptors.push_back(socket.Release());
  CHX_ASSIGN_OR_RETURN(std::unique_ptr<Mesh> mesh, make_mesh_(layout.self, descriptors));
  MemoryEngine::FindSilent find_silent =
      [silent = std::make_shared<const SilentDaemons>(&network_, formed, layout.self)] {
        return silent->Name();
      };
  auto exchange =
      std::make_unique<PeerExchange>(name, std::move(layout), std::move(mesh), timeout_);
  return std::make_shared<MemoryEngine>(
      name, timeout_, std::move(exchange), link,
      [this](std::unique_ptr<PeerExchange> kept) { Keep(std::move(kept)); }, std::move(find_silent),
      by_devices_);
}

void RemoteGroups::Keep(std::unique_ptr<PeerExchange> exchange) {
  const MutexLock lock(&mutex_);
  kept_.push_back({std::move(exchange), std::chrono::steady_clock::now() + timeout_});
}

void RemoteGroups::ForgetKept() {
  std::list<Kept> ended;  // without the lock: it takes some time
  const auto now = std::chrono::steady_clock::now();
  {
    const MutexLock lock(&mutex_);
    for (auto it = kept_.begin(); it != kept_.end();) {
      const auto next = std::next(it);
      if (it->until < now || !it->exchange->HasUnsent()) ended.splice(ended.end(), kept_, it);
      it = next;
    }
  }
}

}  // namespace chx::server
