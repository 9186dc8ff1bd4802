// What the client has to say about its connection: that it was cut and taken up again, that data
// goes another way than it should, that errors were never read.
//
//   chx::SetLogHandler([](const chx::LogMessage& message) {
//     std::cerr << chx::LogLevelName(message.level) << " " << message.text << "\n";
//   });
#ifndef CHX_CLIENT_LOG_H_
#define CHX_CLIENT_LOG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace chx {

// How much a message matters.
enum class LogLevel : uint8_t {
  kDebug = 0,    // a try to reconnect, a wait because the daemon has enough to do
  kInfo = 1,     // reconnected; transfers without shared memory
  kWarning = 2,  // the connection is cut; the daemon is about to end; errors that nobody has read
  kError = 3,    // the session is lost
};
// "warning".
absl::string_view LogLevelName(LogLevel level);

// What a handler gets.
struct LogMessage {
  LogLevel level = LogLevel::kInfo;
  std::string text;  // a line without its end; names the daemon's address
};

// Called by any thread that uses a session, and by the threads that sessions have themselves; also
// by several at a time. Locks of the client may be held: a handler uses no array and no session. To
// be quick is enough.
using LogHandler = std::function<void(const LogMessage&)>;

// From now on messages of this level and above go to the handler, in place of the one before, which
// other threads may still be calling. A null one takes none, as at first. Thread-safe.
void SetLogHandler(LogHandler handler, LogLevel least = LogLevel::kInfo);

namespace internal {
// Whether anybody wants such a message: ask before making it.
bool LogWanted(LogLevel level);
void Log(LogLevel level, std::string text);
}  // namespace internal

}  // namespace chx

#endif  // CHX_CLIENT_LOG_H_
