#include "server/engine/memory_group.h"

#include <utility>

namespace chx::server {

MemoryGroup::MemoryGroup(std::string name, const std::vector<std::string>& devices)
    : name_(std::move(name)) {
  for (const std::string& device : devices) devices_[device] = std::make_unique<MemoryQuota>();
}

MemoryQuota* MemoryGroup::device(absl::string_view name) const {
  const auto found = devices_.find(name);
  return found == devices_.end() ? nullptr : found->second.get();
}

}  // namespace chx::server
