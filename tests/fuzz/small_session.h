// A session with little of everything, so that a fuzzer reaches its limits.
#ifndef CHX_TESTS_FUZZ_SMALL_SESSION_H_
#define CHX_TESTS_FUZZ_SMALL_SESSION_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/command.h"
#include "server/engine/devices.h"
#include "server/native/native_backend.h"
#include "server/session/session.h"

namespace chx {

// Used by one thread. Devices are shared by all; the session, with float32 arrays of shape (2, 3)
// under the handles 1 to 4, the first two of which require grad, and 4096 bytes in shared memory
// under 5, is new.
class SmallSession {
 public:
  SmallSession();
  // Aborts if the session's books are wrong afterwards.
  void Execute(absl::Span<const Command> window);

 private:
  std::unique_ptr<Session> session_;
  SessionOutput output_;
};

// Whether a command would only take long: nothing limits time yet.
bool TakesLong(const Command& command);

}  // namespace chx

#endif  // CHX_TESTS_FUZZ_SMALL_SESSION_H_
