// Ranks that are sessions of one daemon: they read and write each other's arrays where these are.
#ifndef CHX_SERVER_COLLECTIVES_MEMORY_ENGINE_H_
#define CHX_SERVER_COLLECTIVES_MEMORY_ENGINE_H_

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/collectives/collective_engine.h"
#include "server/collectives/work_list.h"

namespace chx::server {

// Ranks wait without a turn to compute, and with no lock but that of their session. The last one
// that comes to a collective begins with the work; the others help where there is enough of it. No
// rank goes on, whatever happens to its session, while another one may use its arrays.
class MemoryEngine final : public CollectiveEngine {
 public:
  // `name`: the group's, for errors. `timeout`: how long a rank waits for the others.
  MemoryEngine(std::string name, int size, std::chrono::milliseconds timeout);

  absl::Status Run(int rank, const CollectiveCall& call, HostKernels kernels) override;
  absl::Status Send(int rank, const CollectiveCall& call, MemoryCharge charge) override;
  absl::Status Receive(int rank, const CollectiveCall& call) override;
  void Break(int rank, absl::string_view why) override;
  void Wake() override;

 private:
  // One collective.
  struct Meeting {
    std::vector<const CollectiveCall*> calls;  // by rank; null: it has not come
    int come = 0;
    absl::optional<WorkList> work;  // once all have come, if their calls go together
    int working = 0;                // threads
    int64_t done = 0;               // parts of the work
    bool over = false;              // nobody begins to work any more
    bool broken = false;            // before all had come
    absl::Status failed;
  };
  using MeetingPtr = std::shared_ptr<Meeting>;
  // What one rank has sent to another.
  struct Message {
    MemoryCharge charge;
    ArraySpec spec;
    std::string data;
    std::string location;  // of the sender
    absl::Status failed;   // not OK: it had nothing to send, for this reason
  };
  using Channel = std::tuple<int, int, int64_t>;  // from, to, tag

  absl::StatusOr<MeetingPtr> Come(int rank, const CollectiveCall& call);
  // Until all ranks have come, or one of them will not.
  void WaitForRanks(int rank, const CollectiveCall& call, const Meeting& meeting);
  void Work(int rank, HostKernels kernels, Meeting* meeting);
  absl::StatusOr<Message> Take(int rank, const CollectiveCall& call, const Channel& channel);
  // Until nobody works any more.
  void WaitForEnd(const Meeting& meeting);
  bool HasBegun(const Meeting& meeting);
  bool HasEnded(const Meeting& meeting);
  absl::Status Outcome(const CollectiveCall& call, const Meeting& meeting);

  absl::Status BrokenError(const CollectiveCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BreakNow(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  CondVar changed_;
  std::string broken_ ABSL_GUARDED_BY(mutex_);  // why; "": it is not
  MeetingPtr meeting_ ABSL_GUARDED_BY(mutex_);  // that ranks come to; null: none has come yet
  // Received in order. What was sent may be received from a broken group, too.
  std::map<Channel, std::deque<Message>> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_MEMORY_ENGINE_H_
