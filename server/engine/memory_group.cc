#include "server/engine/memory_group.h"

#include <utility>

#include "ops/error.h"
#include "server/engine/memory_size.h"

namespace chx::server {

MemoryGroup::MemoryGroup(std::string name, const std::vector<std::string>& devices)
    : name_(std::move(name)) {
  for (const std::string& device : devices) devices_[device] = std::make_unique<MemoryQuota>();
}

MemoryQuota* MemoryGroup::device(absl::string_view name) const {
  const auto found = devices_.find(name);
  return found == devices_.end() ? nullptr : found->second.get();
}

absl::Status MemoryGroup::Exhausted(absl::string_view device, int64_t bytes) const {
  const MemoryQuota& quota = *devices_.find(device)->second;
  return MemoryError("out of memory: ", FormatMemorySize(bytes),
                     " more are needed, and the sessions of the tenant '", name_, "' hold ",
                     FormatMemorySize(quota.used()), " of its limit of ",
                     FormatMemorySize(quota.limit()), " on ", device,
                     "; release arrays, or ask the daemon's operator for more device_memory in the "
                     "tenants file");
}

}  // namespace chx::server
