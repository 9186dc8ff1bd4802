// What each tenant has of a daemon: its sessions, their memory, and their share of busy devices.
#ifndef CHX_SERVER_TENANCY_TENANT_USE_H_
#define CHX_SERVER_TENANCY_TENANT_USE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/engine/memory_group.h"
#include "server/engine/turn_queue.h"
#include "server/tenancy/tenant.h"

namespace chx::server {

// One session's place among those of its tenant, for as long as it exists.
struct TenantPlace {
  MemoryGroupPtr memory;
  std::shared_ptr<TurnGroup> turns;
  std::shared_ptr<void> counted;
};

// Tenants are known by name, so that limits that an operator changes count for sessions that there
// are. Thread-safe.
class TenantUses {
 public:
  // `devices`: the names of all that the daemon serves.
  explicit TenantUses(std::vector<std::string> devices) : devices_(std::move(devices)) {}

  // RESOURCE_EXHAUSTED: it has as many sessions as it may have.
  absl::StatusOr<TenantPlace> Enter(const Tenant& tenant);
  // Limits, weights and priorities are these from now on; those of tenants that are not named stay.
  void SetLimits(const std::vector<TenantPtr>& tenants);

  struct Use {
    std::string tenant;
    int sessions = 0;
    int64_t memory_bytes = 0;
    int64_t memory_limit_bytes = 0;               // 0: none
    std::map<std::string, int64_t> device_bytes;  // by device
  };
  // Of all that have had a session, by name.
  std::vector<Use> List() const;

 private:
  struct Entry;

  std::shared_ptr<Entry> EntryOf(const Tenant& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<std::string> devices_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_TENANT_USE_H_
