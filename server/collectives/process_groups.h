// The process groups of a daemon: how sessions find each other to be ranks of one.
#ifndef CHX_SERVER_COLLECTIVES_PROCESS_GROUPS_H_
#define CHX_SERVER_COLLECTIVES_PROCESS_GROUPS_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "ops/collective.h"
#include "server/collectives/collective_engine.h"
#include "server/collectives/group_request.h"
#include "server/collectives/remote_groups.h"

namespace chx::server {

// How long ranks wait for each other, unless the daemon's flags say otherwise.
inline constexpr std::chrono::milliseconds kDefaultCollectiveTimeout = std::chrono::seconds(60);

// Groups form among sessions of one tenant that give the same name and secret. Once all ranks have
// come, the name is free again. Those that name an address meet there, from several daemons.
// Outlives all sessions. Thread-safe.
class ProcessGroups {
 public:
  static constexpr size_t kMaxNameBytes = 200;
  static constexpr size_t kMaxSecretBytes = 256;

  // `remote`: null: this daemon has no part in groups of several.
  explicit ProcessGroups(std::chrono::milliseconds timeout = kDefaultCollectiveTimeout,
                         RemoteGroups* remote = nullptr)
      : timeout_(timeout), remote_(remote) {}
  ProcessGroups(const ProcessGroups&) = delete;
  ProcessGroups& operator=(const ProcessGroups&) = delete;

  // Waits until all ranks have come, or it is certain that they do not; as CollectiveEngine::Run.
  // An error of one of them is an error of all that wait.
  absl::StatusOr<std::shared_ptr<CollectiveEngine>> Form(const std::string& tenant,
                                                         const GroupRequest& request);
  // Lets those look again who wait and are to stop. To be called by whoever has told them to.
  void WakeStopped();

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // tenant, name, secret
  struct Forming {
    explicit Forming(int64_t size_in) : size(size_in), come(static_cast<size_t>(size_in), false) {}
    const int64_t size;
    std::vector<bool> come;  // by rank
    int64_t missing = size;
    std::shared_ptr<CollectiveEngine> engine;  // once all have come
    absl::Status failed;
  };
  using FormingPtr = std::shared_ptr<Forming>;

  absl::StatusOr<FormingPtr> Come(const Key& key, const GroupRequest& request);
  void Wait(const Key& key, const GroupRequest& request, const FormingPtr& forming);
  // For all that wait.
  void Fail(const Key& key, absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // For WakeStopped.
  void Note(const std::shared_ptr<CollectiveEngine>& engine) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::chrono::milliseconds timeout_;
  RemoteGroups* const remote_;
  Mutex mutex_;
  CondVar changed_;
  std::map<Key, FormingPtr> forming_ ABSL_GUARDED_BY(mutex_);
  // All that there are, as far as they have not ended.
  std::vector<std::weak_ptr<CollectiveEngine>> engines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_PROCESS_GROUPS_H_
