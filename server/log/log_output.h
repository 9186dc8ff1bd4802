// Where log lines go: a descriptor that others may read slowly, or not at all.
#ifndef CHX_SERVER_LOG_LOG_OUTPUT_H_
#define CHX_SERVER_LOG_LOG_OUTPUT_H_

#include "absl/strings/string_view.h"

namespace chx::server {

// Used by one thread at a time. The descriptor stays the caller's; its flags are others' too and
// stay as they are.
class LogOutput {
 public:
  explicit LogOutput(int fd);
  ~LogOutput();
  LogOutput(const LogOutput&) = delete;
  LogOutput& operator=(const LogOutput&) = delete;

  // False: there is no room for the line now. Lines of up to PIPE_BUF bytes are written as one.
  bool Write(absl::string_view line) const;

 private:
  enum class Kind { kOther, kSocket, kPipe };

  int fd_;
  Kind kind_ = Kind::kOther;
  bool own_ = false;
};

}  // namespace chx::server

#endif  // CHX_SERVER_LOG_LOG_OUTPUT_H_
