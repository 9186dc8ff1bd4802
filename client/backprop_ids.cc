#include "client/backprop_ids.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ops/error.h"

namespace chx {

BackpropId BackpropIds::New(std::string name) {
  static std::atomic<BackpropId> last{0};
  const BackpropId id = ++last;
  MutexLock lock(&mutex_);
  graphs_[id].name = std::move(name);
  return id;
}

absl::Status BackpropIds::Release(BackpropId id) {
  if (id == 0) return ChainerxError("the default backprop id cannot be released");
  CHX_RETURN_IF_ERROR(CheckOpen(id));
  MutexLock lock(&mutex_);
  for (BackpropId inner : graphs_[id].inner) --graphs_[inner].outer;
  graphs_.erase(id);
  for (auto& [other, graph] : graphs_) {
    graph.inner.erase(std::remove(graph.inner.begin(), graph.inner.end(), id), graph.inner.end());
  }
  return absl::OkStatus();
}

bool BackpropIds::IsOpen(BackpropId id) const {
  if (id == 0) return true;
  MutexLock lock(&mutex_);
  return graphs_.contains(id);
}

absl::Status BackpropIds::CheckOpen(BackpropId id) const {
  if (IsOpen(id)) return absl::OkStatus();
  return ChainerxError("the backprop id has expired, or belongs to another session");
}

std::vector<BackpropId> BackpropIds::OpenAbove(BackpropId id) const {
  MutexLock lock(&mutex_);
  std::vector<BackpropId> above;
  for (const auto& [open, graph] : graphs_) {
    if (open > id) above.push_back(open);
  }
  return above;
}

std::string BackpropIds::Name(BackpropId id) const {
  MutexLock lock(&mutex_);
  auto it = graphs_.find(id);
  return it == graphs_.end() ? "<expired>" : it->second.name;
}

void BackpropIds::Connect(absl::Span<const BackpropId> ids) {
  MutexLock lock(&mutex_);
  for (BackpropId outer : ids) {
    for (BackpropId inner : ids) {
      if (outer >= inner || !graphs_.contains(outer) || !graphs_.contains(inner)) continue;
      std::vector<BackpropId>& tied = graphs_[outer].inner;
      if (std::find(tied.begin(), tied.end(), inner) != tied.end()) continue;
      tied.push_back(inner);
      ++graphs_[inner].outer;
    }
  }
}

absl::Status BackpropIds::CheckAllowed(BackpropId id) const {
  MutexLock lock(&mutex_);
  auto it = graphs_.find(id);
  if (it == graphs_.end() || !it->second.refused) return absl::OkStatus();
  return ChainerxError("Cannot backward for backprop ID '", it->second.name,
                       "' because backprop ID '", it->second.refused_for,
                       "', which it is connected to and which was created earlier, has already "
                       "been backpropped.");
}

void BackpropIds::SetBackpropped(BackpropId id) {
  MutexLock lock(&mutex_);
  auto it = graphs_.find(id);
  if (it == graphs_.end()) return;
  for (BackpropId inner : it->second.inner) {
    Graph& graph = graphs_[inner];
    if (graph.refused) continue;
    graph.refused = true;
    graph.refused_for = it->second.name;
  }
}

bool BackpropIds::IsTiedToOuter(BackpropId id) const {
  MutexLock lock(&mutex_);
  auto it = graphs_.find(id);
  return it != graphs_.end() && it->second.outer > 0;
}

uint64_t BackpropIds::GradVersion(BackpropId id) const {
  MutexLock lock(&mutex_);
  auto it = graphs_.find(id);
  return it == graphs_.end() ? 0 : it->second.grad_version;
}

uint64_t BackpropIds::IncrementGradVersion(BackpropId id) {
  MutexLock lock(&mutex_);
  auto it = graphs_.find(id);
  return it == graphs_.end() ? 0 : ++it->second.grad_version;
}

}  // namespace chx
