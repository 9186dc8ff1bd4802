// The table of all operators.
#ifndef CHX_OPS_REGISTRY_H_
#define CHX_OPS_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "ops/op_def.h"

namespace chx {

// Immutable once built; safe from any thread.
class OpRegistry {
 public:
  // Every operator, in the order of defs/register_groups.cc; an OpDef's id is its position.
  static const OpRegistry& Global();

  OpRegistry() = default;
  // Starts an entry, in the group named last.
  OpDef& Add(std::string name);
  void BeginGroup(std::string name) { group_ = std::move(name); }

  // By name or alias; null if unknown.
  const OpDef* Find(absl::string_view name) const;
  const OpDef& at(OpId id) const { return *ops_[id]; }
  int size() const { return static_cast<int>(ops_.size()); }
  const std::vector<std::unique_ptr<OpDef>>& ops() const { return ops_; }
  // After the last Add: the names of all aliases become known to Find.
  void Finish();

 private:
  std::string group_;
  std::vector<std::unique_ptr<OpDef>> ops_;
  absl::flat_hash_map<std::string, OpDef*> by_name_;
};

}  // namespace chx

#endif  // CHX_OPS_REGISTRY_H_
