// A rank's collectives that go on while its session does something else.
#ifndef CHX_SERVER_COLLECTIVES_BACKGROUND_CALLS_H_
#define CHX_SERVER_COLLECTIVES_BACKGROUND_CALLS_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/collectives/collective_engine.h"
#include "server/engine/collectives.h"

namespace chx::server {

// A thread that runs calls one after the other, in the order in which they were started. All
// functions are for the session's thread. Nothing of the session is used by it but while a call
// that was started exists.
class BackgroundCalls : public std::enable_shared_from_this<BackgroundCalls> {
 public:
  static absl::StatusOr<std::shared_ptr<BackgroundCalls>> New(
      std::shared_ptr<CollectiveEngine> engine, int rank);
  ~BackgroundCalls();
  BackgroundCalls(const BackgroundCalls&) = delete;
  BackgroundCalls& operator=(const BackgroundCalls&) = delete;

  // It is not stopped in its middle, by which the others would get what is not finished; whoever
  // waits for it, and is to stop, breaks the group.
  std::unique_ptr<StartedCollective> Start(const CollectiveCall& call, HostKernels kernels);
  // Until all that was started is over.
  void WaitUntilIdle();

 private:
  class Started;
  struct Call {
    Call(const CollectiveCall& call_in, HostKernels kernels_in);

    CollectiveCall call;
    std::string location;  // call.location
    HostKernels kernels;
    absl::optional<absl::Status> outcome;
  };

  BackgroundCalls(std::shared_ptr<CollectiveEngine> engine, int rank)
      : engine_(std::move(engine)), rank_(rank) {}
  void Loop();
  absl::Status Run(const Call& call);
  absl::Status WaitFor(const Call& call);
  // Until something has changed, or it is time to look whether this thread is to stop.
  void WaitForChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<CollectiveEngine> engine_;
  const int rank_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);  // the first one runs
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_BACKGROUND_CALLS_H_
