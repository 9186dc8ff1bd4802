// A helper process of the daemon's: a program that is told by its argument what to be, and a socket
// that leads to it.
#ifndef CHX_SERVER_PROCESS_CHILD_H_
#define CHX_SERVER_PROCESS_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace chx::server {

// Where a helper process finds its end of the socket.
inline constexpr int kControlDescriptor = 3;

// Owned by one thread. The process inherits the socket and standard error, and nothing else of the
// daemon's.
class Child {
 public:
  // `name` is what ps shows; `argument` the only argument.
  static absl::StatusOr<std::unique_ptr<Child>> Start(const std::string& program, std::string name,
                                                      std::string argument);
  // Kills it.
  ~Child();

  pid_t pid() const { return pid_; }
  // SOCK_SEQPACKET; blocks. At its end the process is gone.
  int control() const { return control_; }

 private:
  Child(pid_t pid, int control) : pid_(pid), control_(control) {}

  const pid_t pid_;
  const int control_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROCESS_CHILD_H_
