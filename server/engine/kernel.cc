#include "server/engine/kernel.h"

#include "ops/registry.h"

namespace chx::server {

void KernelTable::Set(absl::string_view op, Kernel kernel, bool blockwise) {
  const OpRegistry& registry = OpRegistry::Global();
  kernels_.resize(registry.size());
  blockwise_.resize(registry.size());
  const OpId id = registry.Find(op)->id;
  kernels_[id] = kernel;
  blockwise_[id] = blockwise;
}

void KernelTable::SetFused(Kernel kernel, absl::Span<const absl::string_view> ops) {
  const OpRegistry& registry = OpRegistry::Global();
  fused_ = kernel;
  may_fuse_.assign(registry.size(), false);
  for (const absl::string_view op : ops) may_fuse_[registry.Find(op)->id] = true;
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
