#include "server/sharing/grant.h"

#include <algorithm>
#include <utility>

#include "ops/error.h"

namespace chx::server {
namespace {

// With what a table has beside it, at most.
constexpr int64_t kGrantBytes = 1024;
constexpr int64_t kLeaseBytes = 320;

}  // namespace

absl::StatusOr<std::unique_ptr<Grant>> Grant::New(const Sharer& owner, SharedArray array,
                                                  bool write, absl::Time expires) {
  if (write && !array.storage->on_host()) {
    return ValueError(
        "[share] expects rights=\"read\" for an array of this device: there, sessions' writes have "
        "no common order");
  }
  CHX_ASSIGN_OR_RETURN(MemoryCharge charge, MemoryCharge::Of(owner.account, kGrantBytes));
  return std::unique_ptr<Grant>(new Grant(std::move(array), write, expires, std::move(charge)));
}

Grant::Grant(SharedArray array, bool write, absl::Time expires, MemoryCharge charge)
    : array_(std::move(array)), write_(write), expires_(expires), charge_(std::move(charge)) {}

absl::StatusOr<OpenedArray> Grant::Open(const Sharer& holder, bool copy) {
  if (leases_.size() >= prune_at_) {
    leases_.erase(std::remove_if(leases_.begin(), leases_.end(),
                                 [](const Ref<SharedLease>& lease) { return lease->unique(); }),
                  leases_.end());
    prune_at_ = std::max<size_t>(16, 2 * leases_.size());
  }
  SharedLease::Terms terms;
  terms.rights = copy ? SharedRights::kCopy : write_ ? SharedRights::kWrite : SharedRights::kRead;
  terms.expires = expires_;
  CHX_ASSIGN_OR_RETURN(terms.charge, MemoryCharge::Of(holder.account, kLeaseBytes));
  terms.holding = holder.holding;
  OpenedArray opened;
  opened.lease = Ref<SharedLease>(new SharedLease(array_.storage, std::move(terms)));
  opened.spec = array_.spec;
  leases_.push_back(opened.lease);
  return opened;
}

void Grant::End(const absl::Status& why) {
  for (const Ref<SharedLease>& lease : leases_) lease->End(why);
  leases_.clear();
}

absl::Status CheckSharingAllowed(absl::string_view op, const Sharer& sharer) {
  if (sharer.tenant->features.count(Feature::kSharedNames) != 0) return absl::OkStatus();
  return MakeError(ErrorKind::kContext,
                   absl::StrCat("[", op, "] expects a tenant that may share arrays, got ",
                                sharer.tenant->name, ": its features lack shared-names"));
}

}  // namespace chx::server
