// The log of the daemon and its helper processes: lines on standard error, as text or JSON, by
// spdlog.
#ifndef CHX_SERVER_LOG_LOG_H_
#define CHX_SERVER_LOG_LOG_H_

#include <unistd.h>

#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/log/log_limit.h"

namespace chx::server {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };
enum class LogFormat { kText, kJson };

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string process = "chxd";
  int fd = STDERR_FILENO;  // stays the caller's
};

// "debug" to "error", or "off".
absl::Status ParseLogLevel(absl::string_view text, LogLevel* level);
// "text" or "json".
absl::Status ParseLogFormat(absl::string_view text, LogFormat* format);

// What a line says beside its message. Text may be anybody's: it is made printable and shortened.
// Never a token, never values of arrays.
struct LogField {
  LogField(absl::string_view name, absl::string_view text) : name(name), value(text) {}
  LogField(absl::string_view name, const char* text) : name(name), value(text) {}
  LogField(absl::string_view name, const std::string& text) : name(name), value(text) {}
  LogField(absl::string_view name, bool flag)
      : name(name), value(flag ? "true" : "false"), is_text(false) {}
  template <typename Number, std::enable_if_t<std::is_arithmetic<Number>::value, int> = 0>
  LogField(absl::string_view name, Number number)
      : name(name), value(absl::StrCat(number)), is_text(false) {}

  absl::string_view name;
  std::string value;
  bool is_text = true;
};
using LogFields = std::initializer_list<LogField>;

// Before threads are started that log. Without it: text of level info.
void ConfigureLog(const LogOptions& options);
const LogOptions& CurrentLogOptions();

// By any thread. Does not wait for who reads the lines: what there is no room for is left out, and
// a later line tells how many.
void Log(LogLevel level, absl::string_view message, LogFields fields = {});
// For what clients can cause: no more lines than the limit admits. The next one has a field
// "left_out".
void Log(LogLimit* limit, LogLevel level, absl::string_view message, LogFields fields = {});

// What tells a helper process how to log, as NAME=VALUE, and what it does with that.
std::vector<std::string> LogEnvironment();
void ConfigureLogFromEnvironment(const std::string& process);

}  // namespace chx::server

#endif  // CHX_SERVER_LOG_LOG_H_
