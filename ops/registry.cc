#include "ops/registry.h"

#include "ops/defs/register_groups.h"

namespace chx {

const OpRegistry& OpRegistry::Global() {
  static const OpRegistry* const registry = [] {
    auto* r = new OpRegistry;
    RegisterAllGroups(*r);
    r->Finish();
    return r;
  }();
  return *registry;
}

OpDef& OpRegistry::Add(std::string name) {
  auto op = std::make_unique<OpDef>();
  op->name = name;
  op->group = group_;
  op->id = static_cast<OpId>(ops_.size());
  by_name_[name] = op.get();
  ops_.push_back(std::move(op));
  return *ops_.back();
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

void OpRegistry::Finish() {
  for (const auto& op : ops_) {
    for (const std::string& alias : op->aliases) by_name_.emplace(alias, op.get());
  }
}

}  // namespace chx
