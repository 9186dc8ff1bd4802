#include "tests/fuzz/small_session.h"

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "server/session/command_traits.h"
#include "tests/fuzz/generator.h"

namespace chx::server {
namespace {

constexpr int64_t kMemory = 8 << 20;
constexpr int64_t kHandles = 64;
constexpr int64_t kInlineBytes = 1024;
constexpr size_t kMostNames = 64 << 10;
constexpr size_t kMostExplained = 260 << 10;  // server/session/program_commands.cc

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "expects " << what << std::endl;
  std::abort();
}

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

SmallSession::SmallSession(bool recognize_windows) {
  SessionLimits limits;
  limits.recognize_windows = recognize_windows;
  limits.longest_window = std::chrono::hours(1);  // also under sanitizers
  limits.memory_bytes = kMemory;
  limits.max_handles = kHandles;
  limits.max_inline_bytes = kInlineBytes;
  auto account = std::make_shared<MemoryAccount>(kMemory);
  session_ = std::make_unique<Session>(
      &SharedDevices(), limits,
      SessionResources{true, account, nullptr, store_.Join(DefaultTenant(), account),
                       std::make_unique<GroupMember>(&groups_, "default", account)});
  Execute(InitialArrays());
  Expect(session_->stats().errors == 0, "no errors at first");
}

CommandCounts& SmallSession::Counts() {
  static auto* const counts = new CommandCounts;
  return *counts;
}

void SmallSession::Execute(absl::Span<const Command> window) {
  output_.Clear();
  session_->Execute(window, &output_);
  size_t answers = 0;
  size_t most = kInlineBytes;
  for (const Command& command : window) {
    // Their answers are as long as what was published.
    if (std::holds_alternative<command::Lookup>(command) ||
        std::holds_alternative<command::OpenPrograms>(command) ||
        std::holds_alternative<command::ListNames>(command)) {
      most = std::max(most, kMostNames);
    } else if (std::holds_alternative<command::ExplainProgram>(command)) {
      most = std::max(most, kMostExplained);
    } else if (std::holds_alternative<command::QuerySaved>(command)) {
      most = std::max<size_t>(most, 32 * kInlineBytes);  // server/session/saved_commands.cc
    }
    answers += std::visit([](const auto& c) { return RequestOf(c).has_value(); }, command);
  }
  Expect(output_.values.size() == answers, "an answer for each question");
  for (const SessionOutput::Value& value : output_.values) {
    Expect(value.data.size() <= most, "short answers");
  }
  const SessionStats stats = session_->stats();
  Expect(stats.handles <= kHandles, "few handles");
  Expect(stats.memory_bytes <= kMemory, "little memory");
}

}  // namespace chx::server
