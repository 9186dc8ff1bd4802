#include "server/session/graph_scopes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/session/handle_table.h"

namespace chx::server {
namespace {

constexpr size_t kMaxScopes = 4096;

}  // namespace

std::string GraphName(BackpropId id) {
  return id == 0 ? "'<default>'" : absl::StrCat("number ", id);
}

absl::Status GraphScopes::New(BackpropId id) {
  if (members_.size() >= kMaxScopes) {
    return MemoryError("[backprop_scope] expects at most ", kMaxScopes, " open scopes");
  }
  if (!members_.Reserve(1)) {
    return MemoryError("[backprop_scope] ",
                       meter_->Exhausted(sizeof(std::vector<Handle>)).message());
  }
  if (id == 0 || !members_.try_emplace(id).second) {
    return ChainerxError("[backprop_scope] expects a new backprop id, got ", id);
  }
  return absl::OkStatus();
}

absl::Status GraphScopes::Release(BackpropId id, HandleTable* handles) {
  auto it = members_.find(id);
  if (it == members_.end()) {
    return ChainerxError("[backprop_scope] expects an open backprop id, got ", id);
  }
  for (Handle handle : it->second) handles->LeaveGraph(handle, id);
  meter_->Release(static_cast<int64_t>(it->second.capacity() * sizeof(Handle)));
  members_.erase(it);
  return absl::OkStatus();
}

absl::Status GraphScopes::Check(BackpropId id) const {
  if (id == 0 || members_.contains(id)) return absl::OkStatus();
  return ChainerxError("the backprop id ", id, " has expired");
}

std::vector<BackpropId> GraphScopes::Ids() {
  std::vector<BackpropId> ids;
  for (const auto& [id, members] : members_) ids.push_back(id);
  return ids;
}

void GraphScopes::Clear() {
  for (const auto& [id, members] : members_) {
    meter_->Release(static_cast<int64_t>(members.capacity() * sizeof(Handle)));
  }
  members_.clear();
}

void GraphScopes::NoteMember(BackpropId id, Handle handle, const HandleTable& handles) {
  auto it = members_.find(id);
  if (it == members_.end()) return;
  std::vector<Handle>& members = it->second;
  // Those that are gone would make a long-lived graph's list endless.
  if (members.size() > 2 * handles.size() + 64) {
    const auto is_gone = [&handles](Handle member) { return !handles.contains(member); };
    members.erase(std::remove_if(members.begin(), members.end(), is_gone), members.end());
  }
  const size_t before = members.capacity();
  members.push_back(handle);
  meter_->Charge(static_cast<int64_t>((members.capacity() - before) * sizeof(Handle)));
}

}  // namespace chx::server
