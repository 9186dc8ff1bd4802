#include "server/log/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "server/log/log_output.h"
#include "server/log/printable.h"

namespace chx::server {
namespace {

constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxFieldBytes = 256;
// With what the pattern adds, a line is written to a pipe as one.
constexpr size_t kMaxPayloadBytes = PIPE_BUF - 256;

constexpr char kLevelVariable[] = "CHXD_LOG_LEVEL";
constexpr char kFormatVariable[] = "CHXD_LOG_FORMAT";

constexpr std::pair<absl::string_view, LogLevel> kLevels[] = {{"debug", LogLevel::kDebug},
                                                              {"info", LogLevel::kInfo},
                                                              {"warning", LogLevel::kWarning},
                                                              {"error", LogLevel::kError},
                                                              {"off", LogLevel::kOff}};
constexpr std::pair<absl::string_view, LogFormat> kFormats[] = {{"text", LogFormat::kText},
                                                                {"json", LogFormat::kJson}};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    default:
      return spdlog::level::off;
  }
}

// At most so many bytes, without half a character of UTF-8 at the end.
absl::string_view Cut(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t size = max_bytes;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return text.substr(0, size);
}

std::string Shown(absl::string_view text, size_t max_bytes) {
  const absl::string_view begin = Cut(text, max_bytes);
  const std::string printable = Printable(begin);
  const absl::string_view shown = Cut(printable, max_bytes);
  const bool whole = begin.size() == text.size() && shown.size() == printable.size();
  return absl::StrCat(shown, whole ? "" : "...");
}

std::string JsonString(absl::string_view printable) {
  return absl::StrCat("\"", absl::StrReplaceAll(printable, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// Quoted where it would not be read as one word.
std::string Word(absl::string_view printable) {
  if (!printable.empty() && printable.find_first_of(" =\"") == absl::string_view::npos) {
    return std::string(printable);
  }
  return absl::StrCat("\"", absl::StrReplaceAll(printable, {{"\"", "\\\""}}), "\"");
}

// What stands for %v in the pattern.
std::string Payload(LogFormat format, absl::string_view message,
                    absl::Span<const LogField> fields) {
  const bool json = format == LogFormat::kJson;
  std::string text = Shown(message, kMaxMessageBytes);
  if (json) text = absl::StrCat("\"message\":", JsonString(text));
  for (const LogField& field : fields) {
    const std::string shown = field.is_text ? Shown(field.value, kMaxFieldBytes) : field.value;
    const std::string value = !field.is_text ? shown : json ? JsonString(shown) : Word(shown);
    const size_t size = text.size();
    if (json) {
      absl::StrAppend(&text, ",\"", field.name, "\":", value);
    } else {
      absl::StrAppend(&text, " ", field.name, "=", value);
    }
    if (text.size() > kMaxPayloadBytes) {
      text.resize(size);
      break;
    }
  }
  return text;
}

std::string Pattern(const LogOptions& options) {
  constexpr char kTime[] = "%Y-%m-%dT%H:%M:%S.%eZ";
  if (options.format == LogFormat::kText) {
    return absl::StrCat(kTime, " %l ", options.process, ": %v");
  }
  return absl::StrCat("{\"time\":\"", kTime, "\",\"level\":\"%l\",\"process\":\"", options.process,
                      "\",\"pid\":%P,%v}");
}

// Leaves out lines that there is no room for, and says so when there is.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(const LogOptions& options) : format_(options.format), output_(options.fd) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& line) override {
    if (lost_ > 0) {
      const std::string payload = Payload(format_, "log lines were lost", {{"lines", lost_}});
      if (Write({line.logger_name, spdlog::level::warn, payload})) lost_ = 0;
    }
    if (!Write(line)) ++lost_;
  }
  void flush_() override {}

 private:
  bool Write(const spdlog::details::log_msg& line) {
    spdlog::memory_buf_t text;
    formatter_->format(line, text);
    return output_.Write({text.data(), text.size()});
  }

  const LogFormat format_;
  const LogOutput output_;
  int64_t lost_ = 0;
};

struct State {
  explicit State(const LogOptions& options) : options(options), logger("chxd") {
    const auto sink = std::make_shared<Sink>(options);
    sink->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        Pattern(options), spdlog::pattern_time_type::utc));
    logger.sinks().push_back(sink);
    logger.set_level(ToSpdlog(options.level));
    logger.set_error_handler([](const std::string& error) {});
  }

  const LogOptions options;
  spdlog::logger logger;
};

// Never destroyed: threads may log to the end.
State*& Current() {
  static State* state = new State({});
  return state;
}

// A process without memory for a line goes on without it.
void Write(State* state, LogLevel level, absl::string_view message,
           absl::Span<const LogField> fields) {
  try {
    state->logger.log(ToSpdlog(level), Payload(state->options.format, message, fields));
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

absl::Status ParseLogLevel(absl::string_view text, LogLevel* level) {
  for (const auto& [name, value] : kLevels) {
    if (name != text) continue;
    *level = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--log-level expects debug, info, warning, error or off, got ", text));
}

absl::Status ParseLogFormat(absl::string_view text, LogFormat* format) {
  for (const auto& [name, value] : kFormats) {
    if (name != text) continue;
    *format = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--log-format expects text or json, got ", text));
}

void ConfigureLog(const LogOptions& options) {
  delete std::exchange(Current(), new State(options));
}

const LogOptions& CurrentLogOptions() { return Current()->options; }

void Log(LogLevel level, absl::string_view message, LogFields fields) {
  State& state = *Current();
  if (state.logger.should_log(ToSpdlog(level))) Write(&state, level, message, fields);
}

void Log(LogLimit* limit, LogLevel level, absl::string_view message, LogFields fields) {
  State& state = *Current();
  int64_t left_out = 0;
  if (!state.logger.should_log(ToSpdlog(level))) return;
  if (!limit->Admit(LogLimit::Clock::now(), &left_out)) return;
  if (left_out == 0) return Write(&state, level, message, fields);
  std::vector<LogField> all = {{"left_out", left_out}};
  all.insert(all.end(), fields.begin(), fields.end());
  Write(&state, level, message, all);
}

std::vector<std::string> LogEnvironment() {
  const LogOptions& options = CurrentLogOptions();
  std::vector<std::string> variables;
  for (const auto& [name, level] : kLevels) {
    if (level == options.level) variables.push_back(absl::StrCat(kLevelVariable, "=", name));
  }
  for (const auto& [name, format] : kFormats) {
    if (format == options.format) variables.push_back(absl::StrCat(kFormatVariable, "=", name));
  }
  return variables;
}

void ConfigureLogFromEnvironment(const std::string& process) {
  LogOptions options;
  options.process = process;
  const char* const level = std::getenv(kLevelVariable);
  const char* const format = std::getenv(kFormatVariable);
  if (level != nullptr) ParseLogLevel(level, &options.level).IgnoreError();
  if (format != nullptr) ParseLogFormat(format, &options.format).IgnoreError();
  ConfigureLog(options);
}

}  // namespace chx::server
