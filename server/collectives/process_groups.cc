#include "server/collectives/process_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/collectives/memory_engine.h"
#include "server/collectives/ranks_text.h"
#include "server/engine/stop_token.h"

namespace chx::server {
namespace {

absl::Status CheckRequest(const GroupRequest& request) {
  if (request.name.empty() || request.name.size() > ProcessGroups::kMaxNameBytes ||
      request.secret.size() > ProcessGroups::kMaxSecretBytes ||
      request.address.size() > ProcessGroups::kMaxNameBytes) {
    return ValueError("[join_group] expects a name of 1 to ", ProcessGroups::kMaxNameBytes,
                      " bytes, a secret of at most ", ProcessGroups::kMaxSecretBytes,
                      " and an address of at most ", ProcessGroups::kMaxNameBytes, ", got ",
                      request.name.size(), ", ", request.secret.size(), " and ",
                      request.address.size());
  }
  if (request.size < 1 || request.size > kMaxGroupSize || request.rank < 0 ||
      request.rank >= request.size) {
    return ValueError("[join_group] expects a rank below the size, which is at most ",
                      kMaxGroupSize, ", got rank ", request.rank, " of ", request.size);
  }
  return absl::OkStatus();
}

}  // namespace

void ProcessGroups::Fail(const Key& key, absl::Status why) {
  const auto it = forming_.find(key);
  it->second->failed = std::move(why);
  forming_.erase(it);
  changed_.notify_all();
}

absl::StatusOr<ProcessGroups::FormingPtr> ProcessGroups::Come(const Key& key,
                                                              const GroupRequest& request) {
  const MutexLock lock(&mutex_);
  FormingPtr& entry = forming_[key];
  if (entry == nullptr) entry = std::make_shared<Forming>(request.size);
  const FormingPtr forming = entry;
  absl::Status wrong;
  if (forming->size != request.size) {
    wrong =
        ValueError("[join_group] expects one size from all ranks of process group '", request.name,
                   "', got ", forming->size, " and, from rank ", request.rank, ", ", request.size);
  } else if (forming->come[request.rank]) {
    wrong = ValueError("[join_group] expects one session for each rank of process group '",
                       request.name, "', got two for rank ", request.rank);
  }
  if (!wrong.ok()) {
    Fail(key, wrong);
    return wrong;
  }
  forming->come[request.rank] = true;
  if (--forming->missing > 0) return forming;
  forming->engine =
      std::make_shared<MemoryEngine>(request.name, static_cast<int>(request.size), timeout_);
  Note(forming->engine);
  forming_.erase(key);
  changed_.notify_all();
  return forming;
}

void ProcessGroups::Note(const std::shared_ptr<CollectiveEngine>& engine) {
  const auto useless = [&](const std::weak_ptr<CollectiveEngine>& other) {
    const bool same = !other.owner_before(engine) && !engine.owner_before(other);
    return other.expired() || same;
  };
  engines_.erase(std::remove_if(engines_.begin(), engines_.end(), useless), engines_.end());
  engines_.push_back(engine);
}

void ProcessGroups::Wait(const Key& key, const GroupRequest& request, const FormingPtr& forming) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  const WaitScope others_compute;
  const MutexLock lock(&mutex_);
  while (forming->engine == nullptr && forming->failed.ok()) {
    if (WaitIsStopped()) {
      // Its client may come back, as another session.
      forming->come[request.rank] = false;
      if (++forming->missing == forming->size) forming_.erase(key);
      return;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      Fail(key, MakeError(ErrorKind::kTimeout,
                          absl::StrCat("[join_group] ", AbsentRanks(forming->come),
                                       " did not come to process group '", request.name, "' of ",
                                       forming->size, " within ",
                                       absl::FormatDuration(absl::FromChrono(timeout_)),
                                       ": all ranks give the same name and secret to the same "
                                       "daemon")));
      return;
    }
    changed_.wait_until(mutex_, deadline);
  }
}

absl::StatusOr<std::shared_ptr<CollectiveEngine>> ProcessGroups::Form(const std::string& tenant,
                                                                      const GroupRequest& request) {
  CHX_RETURN_IF_ERROR(CheckRequest(request));
  if (!request.address.empty()) {
    if (remote_ == nullptr) {
      return ValueError(
          "[join_group] expects a daemon with --peer-listen for a group that meets at ",
          request.address, ": this one has no part in groups of several daemons");
    }
    CHX_ASSIGN_OR_RETURN(std::shared_ptr<CollectiveEngine> engine, remote_->Form(tenant, request));
    const MutexLock lock(&mutex_);
    Note(engine);
    return engine;
  }
  const Key key(tenant, request.name, request.secret);
  CHX_ASSIGN_OR_RETURN(const FormingPtr forming, Come(key, request));
  const bool last = request.size == 1;
  if (!last) Wait(key, request, forming);
  const MutexLock lock(&mutex_);
  if (forming->engine != nullptr) return forming->engine;
  CHX_RETURN_IF_ERROR(forming->failed);
  return CheckNotStopped("join_group");
}

void ProcessGroups::WakeStopped() {
  if (remote_ != nullptr) remote_->WakeStopped();
  std::vector<std::shared_ptr<CollectiveEngine>> engines;
  {
    const MutexLock lock(&mutex_);
    if (!forming_.empty()) changed_.notify_all();
    for (const auto& weak : engines_) {
      std::shared_ptr<CollectiveEngine> engine = weak.lock();
      if (engine != nullptr) engines.push_back(std::move(engine));
    }
  }
  for (const auto& engine : engines) engine->Wake();
}

}  // namespace chx::server
