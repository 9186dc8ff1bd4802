#include "server/process/library_log.h"

#include <google/protobuf/stubs/common.h>

#include "server/log/log.h"

#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#else
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#endif

namespace chx::server {

void LogOfLibrary(bool error, absl::string_view text) {
  static auto* const limit = new LogLimit;
  Log(limit, error ? LogLevel::kWarning : LogLevel::kDebug, "from a library", {{"text", text}});
}

#if GOOGLE_PROTOBUF_VERSION < 4022000

void RouteLibraryLogs() { google::protobuf::SetLogHandler(nullptr); }

#else

namespace {

class Sink final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    LogOfLibrary(entry.log_severity() >= absl::LogSeverity::kError, entry.text_message());
  }
};

}  // namespace

void RouteLibraryLogs() {
  absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
  absl::InitializeLog();
  static auto* const sink = new Sink;
  absl::AddLogSink(sink);
}

#endif

}  // namespace chx::server
