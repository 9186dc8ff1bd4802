#include "server/engine/kernel.h"

#include "ops/registry.h"

namespace chx::server {

void KernelTable::Set(absl::string_view op, Kernel kernel) {
  const OpRegistry& registry = OpRegistry::Global();
  if (kernels_.empty()) kernels_.resize(registry.size());
  kernels_[registry.Find(op)->id] = kernel;
}

std::vector<std::string> KernelTable::Missing() const {
  const OpRegistry& registry = OpRegistry::Global();
  std::vector<std::string> missing;
  for (const auto& op : registry.ops()) {
    const OpDef* needed = op->in_place_of.empty() ? op.get() : registry.Find(op->in_place_of);
    if (op->kind == OpKind::kKernel && (needed == nullptr || Find(*needed) == nullptr)) {
      missing.push_back(op->name);
    }
  }
  return missing;
}

}  // namespace chx::server
