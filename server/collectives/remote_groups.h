// Groups whose ranks are sessions of several daemons.
#ifndef CHX_SERVER_COLLECTIVES_REMOTE_GROUPS_H_
#define CHX_SERVER_COLLECTIVES_REMOTE_GROUPS_H_

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/collectives/collective_engine.h"
#include "server/collectives/group_request.h"
#include "server/collectives/member_link.h"
#include "server/collectives/memory_engine.h"
#include "server/collectives/mesh.h"
#include "server/peers/peer_network.h"

namespace chx::server {

// Finds a group's other daemons at its meeting place, and connects to them. A thread for each group
// of this daemon follows what is said there. Thread-safe; outlives all sessions.
class RemoteGroups {
 public:
  // By position, this daemon's is -1. The sockets are taken over.
  using MakeMesh = std::function<absl::StatusOr<std::unique_ptr<Mesh>>(
      int self, const std::vector<int>& sockets)>;

  // `by_devices`: see PeerOptions.
  RemoteGroups(PeerNetwork* network, MakeMesh make_mesh, std::chrono::milliseconds timeout,
               bool by_devices)
      : network_(*network),
        make_mesh_(std::move(make_mesh)),
        timeout_(timeout),
        by_devices_(by_devices) {}
  ~RemoteGroups();

  // As ProcessGroups::Form.
  absl::StatusOr<std::shared_ptr<CollectiveEngine>> Form(const std::string& tenant,
                                                         const GroupRequest& request);
  // As ProcessGroups::WakeStopped, of those that wait in Form.
  void WakeStopped();

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::string>;  // and the address
  struct Forming {
    Key key;
    int size = 0;
    int waiting = 0;
    std::shared_ptr<MemberLink> link;  // null: not yet
    std::shared_ptr<MemoryEngine> engine;
    absl::Status failed;
    bool over() const { return engine != nullptr || !failed.ok(); }
  };
  using FormingPtr = std::shared_ptr<Forming>;
  struct Kept {
    std::unique_ptr<PeerExchange> exchange;
    Deadline until;
  };

  absl::StatusOr<FormingPtr> Enter(const Key& key, const GroupRequest& request);
  // With the thread that connects to the meeting place and follows what is said there.
  absl::Status Begin(const Key& key, const GroupRequest& request, FormingPtr* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until the group has formed or failed, or this rank is to stop.
  void Wait(const std::string& tenant, const GroupRequest& request, const FormingPtr& forming);
  void Leave(const FormingPtr& forming);
  // The next one with that key is another group.
  void Forget(const Forming& forming) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The thread's.
  void Run(FormingPtr forming);
  void Follow(std::shared_ptr<MemberLink> link, FormingPtr forming, const std::string& address);
  void End(const absl::Status& failed, std::shared_ptr<MemoryEngine> engine, Forming* forming);
  absl::StatusOr<std::shared_ptr<MemoryEngine>> Build(const groups::Notice::Formed& formed,
                                                      const Forming& forming,
                                                      const std::shared_ptr<MemberLink>& link);
  absl::StatusOr<std::vector<OwnedFd>> ConnectAll(const groups::Notice::Formed& formed, int self);
  void Keep(std::unique_ptr<PeerExchange> exchange);
  void ForgetKept();

  PeerNetwork& network_;
  const MakeMesh make_mesh_;
  const std::chrono::milliseconds timeout_;
  const bool by_devices_;
  Mutex mutex_;
  CondVar changed_;
  std::map<Key, FormingPtr> forming_ ABSL_GUARDED_BY(mutex_);
  size_t threads_ ABSL_GUARDED_BY(mutex_) = 0;                 // one for each group
  std::map<std::string, int> groups_ ABSL_GUARDED_BY(mutex_);  // by tenant
  // Of groups that have ended here, with what others may still fetch.
  std::list<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_REMOTE_GROUPS_H_
