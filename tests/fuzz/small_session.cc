#include "tests/fuzz/small_session.h"

#include <cstdlib>
#include <string>

#include "server/session/command_traits.h"
#include "tests/fuzz/generator.h"

namespace chx::server {
namespace {

constexpr int64_t kMemory = 8 << 20;
constexpr int64_t kHandles = 64;
constexpr int64_t kInlineBytes = 1024;

const Devices& SharedDevices() {
  static const Devices* const devices = [] {
    // Static too: Devices keeps no pointer to it, and LeakSanitizer looks for one.
    static Backend* const backend = CreateNativeBackend({1}).release();
    auto* const opened = new Devices;
    if (!opened->Open("native:0", {backend}).ok()) std::abort();
    return opened;
  }();
  return *devices;
}

}  // namespace

SmallSession::SmallSession() {
  SessionLimits limits;
  limits.memory_bytes = kMemory;
  limits.max_handles = kHandles;
  limits.max_inline_bytes = kInlineBytes;
  session_ = std::make_unique<Session>(&SharedDevices(), limits, true);
  Execute(InitialArrays());
  if (session_->stats().errors != 0) std::abort();
}

CommandCounts& SmallSession::Counts() {
  static auto* const counts = new CommandCounts;
  return *counts;
}

void SmallSession::Execute(absl::Span<const Command> window) {
  output_.Clear();
  session_->Execute(window, &output_);
  size_t answers = 0;
  for (const Command& command : window) {
    answers += std::visit([](const auto& c) { return RequestOf(c).has_value(); }, command);
  }
  if (output_.values.size() != answers) std::abort();
  for (const SessionOutput::Value& value : output_.values) {
    // What is saved under names may take more (server/session/saved_commands.cc).
    if (value.data.size() > 32 * kInlineBytes) std::abort();
  }
  const SessionStats stats = session_->stats();
  if (stats.handles > kHandles || stats.memory_bytes > kMemory) std::abort();
}

}  // namespace chx::server
