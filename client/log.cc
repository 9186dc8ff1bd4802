#include "client/log.h"

#include <atomic>
#include <memory>
#include <utility>

#include "base/mutex.h"

namespace chx {
namespace {

constexpr int kNone = 255;  // above all levels

struct LogState {
  std::atomic<int> least{kNone};
  Mutex mutex;
  std::shared_ptr<const LogHandler> handler ABSL_GUARDED_BY(mutex);
};

LogState& GetLogState() {
  static LogState& state = *new LogState;  // threads may log when the process ends
  return state;
}

}  // namespace

absl::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      break;
  }
  return "error";
}

void SetLogHandler(LogHandler handler, LogLevel least) {
  LogState& state = GetLogState();
  // Declared before the lock: the old one is destroyed after it.
  auto shared = handler ? std::make_shared<const LogHandler>(std::move(handler)) : nullptr;
  MutexLock lock(&state.mutex);
  state.least = shared ? static_cast<int>(least) : kNone;
  state.handler.swap(shared);
}

namespace internal {

bool LogWanted(LogLevel level) {
  return static_cast<int>(level) >= GetLogState().least.load(std::memory_order_relaxed);
}

void Log(LogLevel level, std::string text) {
  if (!LogWanted(level)) return;
  LogState& state = GetLogState();
  std::shared_ptr<const LogHandler> handler;
  {
    MutexLock lock(&state.mutex);
    handler = state.handler;
  }
  if (handler != nullptr) (*handler)({level, std::move(text)});
}

}  // namespace internal

}  // namespace chx
