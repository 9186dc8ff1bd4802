#include "server/session/last_uses.h"

#include <tuple>
#include <variant>

#include "absl/types/optional.h"
#include "server/session/command_traits.h"

namespace chx::server {
namespace {

constexpr size_t kNever = ~size_t{0};
// Releases in one window beyond which nobody asks which use was an array's last.
constexpr size_t kManyReleases = 4096;

// Calls `use` with every number that may be a handle: one too many only costs a chance to reuse
// memory.
template <typename Use>
struct UseField {
  Use use;
  absl::optional<uint64_t> request;  // which is no handle
  template <typename T>
  void operator()(const T& /*field*/) const {}
  void operator()(const Handle& handle) const {
    if (handle != request) use(handle);
  }
  void operator()(const Handles& handles) const {
    for (Handle handle : handles) use(handle);
  }
};

template <typename Use>
void ForEachUse(const Command& command, Use use) {
  if (const auto* apply = std::get_if<command::ApplyOp>(&command)) {
    for (const HandleOperand& operand : apply->inputs) use(operand.array());
    return;
  }
  const auto visit = [&](const auto& c) {
    const UseField<Use> use_field{use, RequestOf(c)};
    std::apply([&](const auto&... fields) { (use_field(fields), ...); }, c.Fields());
  };
  std::visit(visit, command);
}

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
    ForEachUse(window[i], [&](Handle handle) {
      auto it = positions_.find(handle);
      if (it != positions_.end()) it->second = i;
    });
  }
}

}  // namespace chx::server
