#include "server/tenancy/tenant_use.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

// As TurnGroup's, of which 0 is that of whoever has none.
int PriorityOf(Priority priority) {
  return static_cast<int>(priority) - static_cast<int>(Priority::kNormal);
}

int64_t LimitOf(int64_t bytes) { return bytes == 0 ? MemoryQuota::kNone : bytes; }

}  // namespace

struct TenantUses::Entry {
  explicit Entry(MemoryGroupPtr memory) : memory(std::move(memory)) {}

  const MemoryGroupPtr memory;
  const std::shared_ptr<TurnGroup> turns = std::make_shared<TurnGroup>();
  std::atomic<int> sessions{0};
  int max_sessions = 0;  // the lock's of TenantUses

  void SetLimits(const Tenant& tenant, const std::vector<std::string>& devices) {
    max_sessions = tenant.max_sessions;
    memory->host().set_limit(LimitOf(tenant.memory_bytes));
    for (const std::string& device : devices) {
      const auto named = tenant.device_memory.find(device);
      const int64_t bytes = named == tenant.device_memory.end() ? 0 : named->second;
      memory->device(device)->set_limit(LimitOf(bytes));
    }
    turns->weight = tenant.weight;
    turns->priority = PriorityOf(tenant.priority);
  }
};

std::shared_ptr<TenantUses::Entry> TenantUses::EntryOf(const Tenant& tenant) {
  std::shared_ptr<Entry>& entry = entries_[tenant.name];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>(std::make_shared<MemoryGroup>(tenant.name, devices_));
    entry->SetLimits(tenant, devices_);
  }
  return entry;
}

absl::StatusOr<TenantPlace> TenantUses::Enter(const Tenant& tenant) {
  MutexLock lock(&mutex_);
  const std::shared_ptr<Entry> entry = EntryOf(tenant);
  if (entry->max_sessions != 0 && entry->sessions.load() >= entry->max_sessions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "[open] the tenant '", tenant.name, "' has its ", entry->max_sessions,
        " sessions, as many as its max_sessions allows: close one, or ask the daemon's operator"));
  }
  ++entry->sessions;
  return TenantPlace{entry->memory, entry->turns,
                     std::shared_ptr<void>(nullptr, [entry](void*) { --entry->sessions; })};
}

void TenantUses::SetLimits(const std::vector<TenantPtr>& tenants) {
  MutexLock lock(&mutex_);
  for (const TenantPtr& tenant : tenants) EntryOf(*tenant)->SetLimits(*tenant, devices_);
}

std::vector<TenantUses::Use> TenantUses::List() const {
  MutexLock lock(&mutex_);
  std::vector<Use> uses;
  uses.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    Use use;
    use.tenant = name;
    use.sessions = entry->sessions.load();
    MemoryQuota& host = entry->memory->host();
    use.memory_bytes = host.used();
    use.memory_limit_bytes = host.limit() == MemoryQuota::kNone ? 0 : host.limit();
    for (const std::string& device : devices_) {
      use.device_bytes[device] = entry->memory->device(device)->used();
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace chx::server
