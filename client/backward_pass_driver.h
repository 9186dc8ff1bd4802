// One backward pass that may call functions of the client.
#ifndef CHX_CLIENT_BACKWARD_PASS_DRIVER_H_
#define CHX_CLIENT_BACKWARD_PASS_DRIVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/client_functions.h"
#include "client/command_queue.h"
#include "client/graph_mirror.h"
#include "proto/graph_state.h"

namespace chx {

// Starts the pass in the daemon, and computes the gradients that the daemon asks for until the pass
// is done.
//
// Lives on the stack of the thread that called backward() or grad(), and is used by that thread
// only. No lock is held while a function runs: it may use the session, and start other passes.
class BackwardPassDriver {
 public:
  BackwardPassDriver(Session* session, const BackwardArgs& args);
  BackwardPassDriver(const BackwardPassDriver&) = delete;

  // `command` is a command::Backward or a command::Grad. Waits until the pass is done.
  template <typename PassCommand>
  absl::Status Run(PassCommand command) {
    {
      MutexLock lock(&queue_.mutex());
      command.request_id = pass_ = queue_.NewRequest();
      command.location = queue_.Location();
      command.mode = queue_.Mode();
      queue_.Append(std::move(command));
    }
    return Drive();
  }

 private:
  absl::Status Drive();
  absl::StatusOr<PassState> WaitForState(uint64_t request);
  uint64_t Resume(const std::vector<ArrayPtr>& grads);
  void Abandon();
  // Calls the function that the pass waits for.
  absl::Status CallFunction(const PassState& state, std::vector<ArrayPtr>* grads);
  // Gives handles to the arrays that the daemon has for the function.
  FunctionCallArgs BindArguments(const RecordedFunction& recorded, const PassState& state);
  absl::Status CheckGrads(const RecordedFunction& recorded, const std::vector<int>& targets,
                          const std::vector<ArrayPtr>& grads) const;

  Session& session_;
  CommandQueue& queue_;
  const BackwardArgs& args_;
  uint64_t pass_ = 0;  // its number: the id of the request that started it
};

}  // namespace chx

#endif  // CHX_CLIENT_BACKWARD_PASS_DRIVER_H_
