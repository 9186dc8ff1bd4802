// A session with little of everything, so that a fuzzer reaches its limits.
#ifndef CHX_TESTS_FUZZ_SMALL_SESSION_H_
#define CHX_TESTS_FUZZ_SMALL_SESSION_H_

#include <chrono>
#include <memory>

#include "absl/types/span.h"
#include "proto/command.h"
#include "server/collectives/process_groups.h"
#include "server/engine/devices.h"
#include "server/native/native_backend.h"
#include "server/session/session.h"
#include "server/sharing/shared_store.h"
#include "tests/fuzz/command_counts.h"

namespace chx::server {

// Used by one thread. Devices are shared by all; the session, with InitialArrays(), is new.
class SmallSession {
 public:
  explicit SmallSession(bool recognize_windows = true);
  // Aborts if the session's books are wrong afterwards.
  void Execute(absl::Span<const Command> window);
  // Of the last window.
  const SessionOutput& output() const { return output_; }
  int64_t repeated_windows() const { return session_->counters().repeated_windows.value(); }
  // How many commands have failed.
  int64_t errors() const { return static_cast<int64_t>(session_->stats().errors); }
  // What a fuzzer has had executed, in all sessions.
  static CommandCounts& Counts();

 private:
  SharedStore store_;
  ProcessGroups groups_{std::chrono::milliseconds(1)};
  std::unique_ptr<Session> session_;
  SessionOutput output_;
};

}  // namespace chx::server

#endif  // CHX_TESTS_FUZZ_SMALL_SESSION_H_
