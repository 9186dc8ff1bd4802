// Backward passes that wait for a function of the client.
#ifndef CHX_SERVER_SESSION_PENDING_PASSES_H_
#define CHX_SERVER_SESSION_PENDING_PASSES_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/command.h"
#include "server/autograd/backward.h"
#include "server/engine/memory_budget.h"
#include "server/session/charged_table.h"

namespace chx::server {

// A pass that waits is a value of the session like others: no thread and no lock is held, and other
// commands run.
struct PendingPass {
  uint32_t location = 0;               // of the command that began it
  Handles results;                     // of Grad
  std::unique_ptr<Backprop> backprop;  // null: it has ended late, and the client is to be told
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();
  MemoryCharge charge;  // of the results
};

// By number. Belongs to a session and is used under its lock.
class PendingPasses {
 public:
  // `patience`: how long a pass waits; 0: without end.
  PendingPasses(MemoryMeter* meter, std::chrono::milliseconds patience)
      : meter_(meter), patience_(patience) {}

  // An error if no pass with that number can wait.
  absl::Status CheckNew(uint64_t number);
  // After CheckNew.
  void Add(uint64_t number, PendingPass pass);
  absl::StatusOr<PendingPass*> Find(uint64_t number);
  absl::StatusOr<PendingPass> Take(uint64_t number);
  // An error if the client's function has taken too long.
  absl::Status CheckInTime(const PendingPass& pass) const;
  // Frees what passes hold whose time is over.
  void EndLate();
  void Clear() { passes_.clear(); }

 private:
  MemoryMeter* const meter_;
  const std::chrono::milliseconds patience_;
  ChargedTable<uint64_t, PendingPass> passes_{meter_};
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_PENDING_PASSES_H_
