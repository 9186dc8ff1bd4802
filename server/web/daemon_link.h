// What the web process asks the daemon.
#ifndef CHX_SERVER_WEB_DAEMON_LINK_H_
#define CHX_SERVER_WEB_DAEMON_LINK_H_

#include <chrono>
#include <functional>
#include <string>

#include "proto/frame_caller.h"

namespace chx::server {

// Answers are kept for kKept: however many ask, the daemon answers ten times a second at most. Used
// by one thread.
class DaemonLink {
 public:
  static constexpr std::chrono::milliseconds kKept{100};

  // As FrameCaller.
  explicit DaemonLink(int socket) : daemon_(socket, "") {}

  // In Prometheus' text format.
  const std::string& Metrics();
  // A NodeStatusReply as JSON: see NodeStatusJson.
  const std::string& Status();
  bool Serving();
  // Whether an answer did not come: the process is of no use any more.
  bool broken() const { return broken_; }

 private:
  struct Answer {
    std::string text;
    std::chrono::steady_clock::time_point asked;
  };
  // Asks by `call`, unless there is an answer yet; `take` gets what came.
  const std::string& Ask(const v1::Call& call, Answer* answer,
                         const std::function<std::string(v1::Reply*)>& take);

  FrameCaller daemon_;
  Answer metrics_, status_, health_;
  bool broken_ = false;
};

// The message with its fields' names, times in seconds and sizes in bytes.
std::string NodeStatusJson(const v1::NodeStatusReply& status);

}  // namespace chx::server

#endif  // CHX_SERVER_WEB_DAEMON_LINK_H_
