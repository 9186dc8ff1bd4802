#include "server/session/saved_arrays.h"

#include <utility>

#include "ops/error.h"
#include "server/session/definitions.h"

namespace chx::server {
namespace {

constexpr size_t kMaxNames = 4096;
constexpr size_t kMaxArrayNameBytes = 255;
constexpr size_t kMaxTreeBytes = 512 << 10;
constexpr size_t kMaxArrays = 4096;
constexpr size_t kMaxGeneratorBytes = 256;

absl::Status NotSaved(absl::string_view op, absl::string_view name) {
  return ValueError("[", op, "] expects a name that arrays were saved under, got '", name, "'");
}

// What others see of the array later: a leaf of the default graph, or a value.
Variable Kept(const Variable& array, bool* detached) {
  Variable kept;
  kept.array = array.array;
  for (const Ref<ArrayNode>& node : array.nodes) {
    if (node->creator) *detached = true;
    if (node->id == 0 && !node->creator) kept.nodes.push_back(node);
  }
  return kept;
}

}  // namespace

absl::StatusOr<uint64_t> SavedArrays::Save(absl::string_view name, absl::string_view tree,
                                           absl::Span<Variable* const> arrays) {
  if (name.empty() || name.size() > kMaxArrayNameBytes) {
    return ValueError("[save] expects a name of 1 to ", kMaxArrayNameBytes, " bytes, got ",
                      name.size());
  }
  if (tree.size() > kMaxTreeBytes || arrays.size() > kMaxArrays) {
    return ValueError("[save] expects at most ", kMaxArrays, " arrays, with names of at most ",
                      kMaxTreeBytes, " bytes together, got ", arrays.size(), " and ", tree.size());
  }
  auto it = entries_.find(name);
  if (it == entries_.end() && entries_.size() >= kMaxNames) {
    return MemoryError("[save] expects at most ", kMaxNames, " names in a session");
  }
  Entry entry;
  entry.bytes = static_cast<int64_t>(sizeof(Entry) + arrays.size() * sizeof(Variable)) +
                TextBytes(name.size()) + TextBytes(tree.size()) + 4 * kAllocationBytes;
  if (!meter_->TryCharge(entry.bytes)) {
    return MemoryError("[save] ", meter_->Exhausted(entry.bytes).message());
  }
  entry.version = next_version_++;
  entry.tree = std::string(tree);
  entry.arrays.reserve(arrays.size());
  uint64_t detached = 0;
  for (const Variable* array : arrays) {
    bool computed = false;
    entry.arrays.push_back(Kept(*array, &computed));
    for (const Ref<ArrayNode>& node : entry.arrays.back().nodes) ++node->handles;
    if (computed) ++detached;
  }
  if (it == entries_.end()) {
    entries_.emplace(std::string(name), std::move(entry));
  } else {
    Drop(&it->second);
    it->second = std::move(entry);
  }
  return detached;
}

absl::StatusOr<const SavedArrays::Entry*> SavedArrays::Find(absl::string_view name) const {
  auto it = entries_.find(name);
  if (it == entries_.end()) return NotSaved("load", name);
  return &it->second;
}

absl::Status SavedArrays::Load(absl::string_view name, uint64_t version,
                               absl::Span<const Handle> results, HandleTable* handles) const {
  CHX_ASSIGN_OR_RETURN(const Entry* entry, Find(name));
  CHX_RETURN_IF_ERROR(handles->CheckNew(results));
  if (entry->version != version || entry->arrays.size() != results.size()) {
    return MakeError(ErrorKind::kNotImplemented,
                     "[load] expects what was there a moment ago: it was saved anew meanwhile");
  }
  for (size_t i = 0; i < results.size(); ++i) handles->Bind(results[i], entry->arrays[i]);
  return absl::OkStatus();
}

absl::Status SavedArrays::Forget(absl::string_view name) {
  auto it = entries_.find(name);
  if (it == entries_.end()) return NotSaved("forget", name);
  Drop(&it->second);
  entries_.erase(it);
  return absl::OkStatus();
}

absl::Status SavedArrays::NoteGenerator(absl::string_view state) {
  if (state.size() > kMaxGeneratorBytes) {
    return ValueError("[generator] expects at most ", kMaxGeneratorBytes, " bytes, got ",
                      state.size());
  }
  generator_ = std::string(state);
  return absl::OkStatus();
}

void SavedArrays::RestoreVersion(const std::string& name, uint64_t version) {
  auto it = entries_.find(name);
  if (it != entries_.end()) it->second.version = version;
}

void SavedArrays::Drop(Entry* entry) {
  for (const Variable& array : entry->arrays) {
    for (const Ref<ArrayNode>& node : array.nodes) {
      if (--node->handles == 0) node->grad = nullptr;
    }
  }
  meter_->Release(entry->bytes);
}

void SavedArrays::Clear() {
  for (auto& [name, entry] : entries_) Drop(&entry);
  entries_.clear();
  generator_.clear();
}

}  // namespace chx::server
