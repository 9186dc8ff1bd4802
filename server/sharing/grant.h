// A session's consent that others use one of its arrays.
#ifndef CHX_SERVER_SHARING_GRANT_H_
#define CHX_SERVER_SHARING_GRANT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ref.h"
#include "ops/array_spec.h"
#include "server/engine/memory_budget.h"
#include "server/engine/shared_storage.h"
#include "server/tenancy/tenant.h"

namespace chx::server {

// What sharing knows of a session.
struct Sharer {
  uint64_t number = 0;  // no other session's
  TenantPtr tenant;
  MemoryAccountPtr account;
  std::shared_ptr<std::atomic<int64_t>> holding;  // bytes of storages, each as often as it is held
};

// An array in memory that several sessions may have.
struct SharedArray {
  Ref<SharedStorage> storage;
  ArraySpec spec;
};

// As a session that has opened it has it.
struct OpenedArray {
  Ref<SharedLease> lease;
  ArraySpec spec;
};

// Used under the lock of the table that it is in.
class Grant {
 public:
  // The owner is charged for it. `write`: holders may write, too.
  static absl::StatusOr<std::unique_ptr<Grant>> New(const Sharer& owner, SharedArray array,
                                                    bool write,
                                                    absl::Time expires = absl::InfiniteFuture());

  const SharedArray& array() const { return array_; }
  absl::Time expires() const { return expires_; }
  // The array for a session, which is charged for the lease. `copy`: its first write copies.
  absl::StatusOr<OpenedArray> Open(const Sharer& holder, bool copy);
  // Whoever has opened it cannot use it any more, for that reason.
  void End(const absl::Status& why);

 private:
  Grant(SharedArray array, bool write, absl::Time expires, MemoryCharge charge);

  const SharedArray array_;
  const bool write_;
  const absl::Time expires_;
  const MemoryCharge charge_;
  std::vector<Ref<SharedLease>> leases_;  // with some that nobody has any more
  size_t prune_at_ = 16;
};

// An error unless the session's tenant may share arrays.
absl::Status CheckSharingAllowed(absl::string_view op, const Sharer& sharer);

}  // namespace chx::server

#endif  // CHX_SERVER_SHARING_GRANT_H_
