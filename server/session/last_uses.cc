#include "server/session/last_uses.h"

#include <variant>

#include "server/session/command_handles.h"

namespace chx::server {
namespace {

constexpr size_t kNever = ~size_t{0};
// Releases in one window beyond which nobody asks which use was an array's last.
constexpr size_t kManyReleases = 4096;

}  // namespace

void LastUses::Find(absl::Span<const Command> window) {
  positions_.clear();
  for (const Command& command : window) {
    const auto* release = std::get_if<command::Release>(&command);
    if (release == nullptr) continue;
    if (positions_.size() + release->handles.size() > kManyReleases) {
      positions_.clear();
      return;
    }
    for (Handle handle : release->handles) positions_.emplace(handle, kNever);
  }
  if (positions_.empty()) return;
  for (size_t i = 0; i < window.size(); ++i) {
    if (std::holds_alternative<command::Release>(window[i])) continue;
    ForEachNamed(window[i], [&](Handle handle) {
      auto it = positions_.find(handle);
      if (it != positions_.end()) it->second = i;
    });
  }
}

}  // namespace chx::server
