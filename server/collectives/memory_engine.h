// Ranks that are sessions of this daemon: they read and write each other's arrays where these are.
#ifndef CHX_SERVER_COLLECTIVES_MEMORY_ENGINE_H_
#define CHX_SERVER_COLLECTIVES_MEMORY_ENGINE_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/collectives/collective_engine.h"
#include "server/collectives/device_exchange.h"
#include "server/collectives/member_link.h"
#include "server/collectives/peer_exchange.h"
#include "server/collectives/work_list.h"
#include "server/engine/stop_token.h"

namespace chx::server {

// Ranks wait without a turn to compute, and with no lock but that of their session. The last one
// that comes to a collective begins with the work; the others help where there is enough of it. No
// rank goes on, whatever happens to its session, while another one may use its arrays.
//
// Where other ranks are sessions of other daemons, the last one of these to come deals with them
// meanwhile (PeerExchange). Where all have their arrays on devices that exchange them by
// themselves, it gives these the work of all ranks (DeviceExchange).
class MemoryEngine final : public CollectiveEngine {
 public:
  // `name`: the group's, for errors. `timeout`: how long a rank waits for the others.
  MemoryEngine(std::string name, int size, std::chrono::milliseconds timeout);
  // A part of a group. What breaks it here is told to `link`, which tells what breaks it elsewhere.
  // At the end `keep` gets an exchange with messages that other daemons have not received yet.
  using Keep = std::function<void(std::unique_ptr<PeerExchange>)>;
  // Says which ranks do not answer, as their daemons do not: "" if all do. Within a few seconds.
  using FindSilent = std::function<std::string()>;
  // `by_devices`: all ranks' devices may exchange arrays by themselves.
  MemoryEngine(std::string name, std::chrono::milliseconds timeout,
               std::unique_ptr<PeerExchange> peers, std::shared_ptr<MemberLink> link, Keep keep,
               FindSilent find_silent, bool by_devices);
  ~MemoryEngine() override;

  absl::Status Run(int rank, const CollectiveCall& call, HostKernels kernels) override;
  absl::Status Send(int rank, const CollectiveCall& call, MemoryCharge charge) override;
  absl::Status Receive(int rank, const CollectiveCall& call) override;
  void Break(int rank, absl::string_view why) override;
  void Wake() override;
  // As another daemon says, whose ranks have finished so many collectives.
  void BreakElsewhere(const std::string& why, int64_t finished);

 private:
  // One collective.
  struct Meeting {
    std::vector<const CollectiveCall*> calls;  // by rank; null: it has not come
    int come = 0;
    absl::optional<WorkList> work;  // once all have come, if their calls go together
    int working = 0;                // threads
    int64_t done = 0;               // parts of the work
    bool over = false;              // nobody begins to work any more
    bool exchanging = false;        // by other daemons or devices, which one of the ranks sees to
    bool through_host = false;      // over, and nothing was done: all meet again with other arrays
    bool broken = false;            // not by the calls
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

  // *last: this rank is to exchange for all.
  absl::StatusOr<MeetingPtr> Come(int rank, const CollectiveCall& call, bool* last);
  void BeginExchange(int rank, const CollectiveCall& call, Meeting* meeting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Exchange(int rank, const CollectiveCall& call, HostKernels kernels, Meeting* meeting);
  void ExchangeHere(int rank, const CollectiveCall& call, Meeting* meeting);
  // As PeerExchange::Run, of arrays on devices that all ranks agree on.
  PeerOutcome ExchangeByDevices(int rank, const CollectiveCall& call, const Meeting& meeting);
  // Meets the others once more, with arrays in the host's memory.
  absl::Status RunThroughHost(int rank, const CollectiveCall& call, HostKernels kernels);
  // Until all ranks have come, or one of them will not.
  void WaitForRanks(int rank, const CollectiveCall& call, const Meeting& meeting);
  void Work(int rank, HostKernels kernels, Meeting* meeting);
  absl::StatusOr<Message> Take(int rank, const CollectiveCall& call, const Channel& channel);
  absl::Status SendToPeer(int rank, const CollectiveCall& call, MemoryCharge charge);
  absl::Status ReceiveFromPeer(int rank, const CollectiveCall& call, PeerAttrs from);
  // Until nobody works any more.
  void WaitForEnd(const Meeting& meeting);
  bool HasBegun(const Meeting& meeting);
  bool HasEnded(const Meeting& meeting);
  absl::Status Outcome(const CollectiveCall& call, const Meeting& meeting);

  absl::Status BrokenError(const CollectiveCall& call) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BreakNow(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With what there is to say, unless another daemon says at once what has happened to it.
  void BreakForPeers(const PeerOutcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As FindSilent, without the lock meanwhile. Where daemons wait for each other it is those that
  // do not answer at all who keep the others waiting. "": there is no other daemon.
  std::string SilentPeers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whoever waits for other daemons looks again.
  void InterruptExchanges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of this daemon's ranks, those that have not come.
  std::string Absent(const Meeting& meeting) const;

  const std::string name_;
  const int size_;
  const int num_local_;
  const std::chrono::milliseconds timeout_;
  std::unique_ptr<PeerExchange> peers_;  // null: all ranks are here
  const std::shared_ptr<MemberLink> link_;
  const Keep keep_;
  const FindSilent find_silent_;
  DeviceExchange devices_;
  std::atomic<bool> by_devices_{true};  // false: no rank comes with arrays on devices any more
  Mutex mutex_;
  CondVar changed_;
  std::string broken_ ABSL_GUARDED_BY(mutex_);    // why; "": it is not
  int64_t finished_ ABSL_GUARDED_BY(mutex_) = 0;  // collectives with other daemons
  MeetingPtr meeting_ ABSL_GUARDED_BY(mutex_);    // that ranks come to; null: none has come yet
  // While a rank exchanges: what it works for, and what to say if that is to stop.
  bool exchanging_ ABSL_GUARDED_BY(mutex_) = false;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;  // it is to stop
  const StopToken* exchanger_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::string exchanger_stopped_ ABSL_GUARDED_BY(mutex_);
  std::vector<PeerExchange::Receiving*> receiving_ ABSL_GUARDED_BY(mutex_);
  // Received in order. What was sent may be received from a broken group, too.
  std::map<Channel, std::deque<Message>> messages_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_MEMORY_ENGINE_H_
