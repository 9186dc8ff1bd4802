// What a session is configured with, and what it gives to the transport.
#ifndef CHX_SERVER_SESSION_SESSION_TYPES_H_
#define CHX_SERVER_SESSION_SESSION_TYPES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ops/array_spec.h"
#include "proto/ids.h"
#include "server/engine/compute_slots.h"
#include "server/engine/memory_budget.h"
#include "server/tenancy/tenant.h"

namespace chx::server {

class Tracer;

// Why a handle has no array: where the chain of failures began. Shared by all who inherit it.
struct RootError {
  absl::Status status;           // with its ErrorKind
  std::string op;                // the operator that failed
  std::string inputs;            // "float32(2, 3), 1.0"
  std::string location;          // the client's file:line, if it sent one
  bool read = false;             // a client has seen it
  bool absent_gradient = false;  // not a failure: there is no such gradient
  MemoryCharge charge;           // of the texts; lives as long as they do, on any thread
};
using RootErrorPtr = std::shared_ptr<RootError>;

// How many sessions there may be in a daemon, unless its flags say otherwise.
inline constexpr int kDefaultMaxSessions = 2048;

struct SessionLimits {
  int64_t memory_bytes = int64_t{4} << 30;  // over all devices
  int64_t max_handles = 1 << 22;
  int64_t max_inline_bytes = 64 << 10;
  // How long a backward pass waits for a function of the client; 0: without end.
  std::chrono::milliseconds function_deadline = std::chrono::hours(1);
  std::chrono::milliseconds max_command_time{0};  // 0: commands take as long as they need
  ComputeSlots* compute_slots = nullptr;          // all sessions'; null: each computes as it likes
  TurnGroup* turn_group = nullptr;                // whose share it computes from; outlives it
  TenantPtr tenant = DefaultTenant();             // for what it may use
  bool recognize_windows = true;                  // that repeat themselves
  // Of those: one that takes longer gains little. Its commands are stopped, and make way, one by
  // one.
  std::chrono::milliseconds longest_window{100};
  std::chrono::milliseconds slow_command{0};  // from when on one is told of; 0: none is
  Tracer* tracer = nullptr;                   // the daemon's; null: nothing is ever traced
};

// What a run of commands has for the client.
struct SessionOutput {
  struct Error {
    Handle handle;
    RootErrorPtr error;
  };
  struct Value {
    uint64_t request_id;
    RootErrorPtr error;  // null: the value below is there
    Dtype dtype = Dtype::kFloat32;
    Shape shape;
    std::string data;
    MemoryCharge charge;  // of the data, if it is large
  };
  // A command that took longer than SessionLimits::slow_command.
  struct Slow {
    std::string op;
    std::string inputs;    // shapes and dtypes
    std::string location;  // the client's file:line
    int64_t milliseconds = 0;
  };
  std::vector<Error> errors;
  std::vector<Value> values;
  std::vector<Slow> slow;
  std::vector<uint64_t> freed_functions;  // see Event in proto/chxd.proto
  void Clear() {
    errors.clear();
    values.clear();
    slow.clear();
    freed_functions.clear();
  }
  bool empty() const {
    return errors.empty() && values.empty() && slow.empty() && freed_functions.empty();
  }
};

struct SessionStats {
  int64_t handles = 0;
  int64_t memory_bytes = 0;   // all that the session holds, on all devices
  int64_t array_bytes = 0;    // of that, its pools
  int64_t spilled_bytes = 0;  // arrays in files, beside that, or of a GPU in host memory, in that
  int64_t shared_bytes = 0;   // that it holds of others, which are charged for it
  int64_t commands = 0;
  int64_t errors = 0;
  std::chrono::nanoseconds device_time{};  // that GPUs have worked for it
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_SESSION_TYPES_H_
