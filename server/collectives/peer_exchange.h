// How a daemon's part of a group deals with the daemons of the other ranks.
#ifndef CHX_SERVER_COLLECTIVES_PEER_EXCHANGE_H_
#define CHX_SERVER_COLLECTIVES_PEER_EXCHANGE_H_

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "ops/collective.h"
#include "server/collectives/call_boxes.h"
#include "server/collectives/collective_engine.h"
#include "server/collectives/group_layout.h"
#include "server/collectives/mesh.h"
#include "server/collectives/ring_reduction.h"

namespace chx::server {

// What came of it.
struct PeerOutcome {
  absl::Status failed;  // at all daemons, which go on
  std::string broken;   // not empty: they are out of step, as "rank 2 did not come to all_reduce"
  // Unless that is kHost nothing has been exchanged yet. kDevices: all ranks' arrays are there;
  // else they pass through the host, this time or always.
  ArrayPlace place = ArrayPlace::kHost;
  // Broken, as others did not come in time or a connection was cut: by those that `broken` names,
  // or by what these wait for themselves.
  bool unanswered = false;

  static PeerOutcome Unanswered(std::string why) {
    return {absl::OkStatus(), std::move(why), ArrayPlace::kHost, true};
  }
};

// Thread-safe.
class PeerExchange {
 public:
  PeerExchange(std::string group, GroupLayout layout, std::unique_ptr<Mesh> mesh,
               std::chrono::milliseconds timeout);
  ~PeerExchange();

  const GroupLayout& layout() const { return layout_; }

  // All of this daemon's ranks have come. `calls`: by rank, null for others'. `compared`: what is
  // wrong with these already. `place`: of this daemon's arrays. One thread at a time, and the n-th
  // call of all daemons is one.
  PeerOutcome Run(const std::vector<const CollectiveCall*>& calls, const absl::Status& compared,
                  ArrayPlace place, HostKernels kernels);
  // Within a call that is not over: each daemon's text, of at most kMaxText bytes, to all of them.
  // Empty, or what went wrong.
  static constexpr size_t kMaxText = 900;
  std::string Tell(absl::string_view op, const std::string& own, std::vector<std::string>* all);

  // To a rank of another daemon; as CollectiveEngine::Send. An error: the group is broken.
  std::string Send(int rank, const CollectiveCall& call, MemoryCharge charge);
  // From one, in two steps. `patience`: how long to wait, for a wait that began then; it is asked
  // again after Interrupt.
  class Receiving;
  using TimePoint = std::chrono::steady_clock::time_point;
  using Patience = absl::FunctionRef<std::chrono::milliseconds(TimePoint began)>;
  std::unique_ptr<Receiving> BeginReceive(int rank, PeerAttrs from);
  PeerOutcome Receive(const CollectiveCall& call, Patience patience, Receiving* receiving);
  // Whether other daemons may still fetch what was sent here.
  bool HasUnsent();

  // Run comes back, and all that follows fails.
  void Abort() { mesh_->Abort(); }

 private:
  struct Text;
  struct MessageHeader;
  struct Sent;

  // How a group is broken, unless it is known better. `why`: for the log.
  static std::string CutIn(absl::string_view op, const std::string& why);
  // For transfers from other daemons, by daemon, and to them. Empty, or what went wrong.
  std::string WaitFor(absl::string_view op, const CallBoxes::Transfers& receives,
                      const CallBoxes::Transfers& sends);
  // Each daemon's text, to all.
  std::string Gather(absl::string_view op, const Text& own, std::vector<Text>* all);
  // All of this daemon's ranks have come to this call; *headers has what all daemons say of it.
  std::string TellCall(const CollectiveCall& own, const CallHeader& header,
                       std::vector<CallHeader>* headers);
  PeerOutcome Disagree(const CollectiveCall& own, int rank, const std::vector<CallHeader>& headers,
                       const absl::Status& compared);
  PeerOutcome TakeElements(const CollectiveCall& call, const MessageHeader& header,
                           Patience patience, Receiving* receiving);
  // The sweeper's: frees what has been received, in the order in which it was sent.
  void Sweep();

  const std::string group_;
  const GroupLayout layout_;
  const std::unique_ptr<Mesh> mesh_;
  const std::chrono::milliseconds timeout_;
  CallBoxes boxes_;
  RingReduction ring_;
  std::thread sweeper_ ABSL_GUARDED_BY(mutex_);  // from the first message on
  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<Sent>> sent_ ABSL_GUARDED_BY(mutex_);
};

// A message that a rank waits for.
class PeerExchange::Receiving {
 public:
  Receiving();
  ~Receiving();
  // Any thread, between BeginReceive and the end of this.
  void Interrupt();

 private:
  friend class PeerExchange;

  void Begin(std::unique_ptr<MeshTransfer> transfer);
  // Whether it has come; *why is empty if it has not come in time.
  bool Wait(Patience patience, std::string* why);

  PeerAttrs from_;
  int rank_ = 0;
  uint64_t slot_ = 0;
  std::unique_ptr<MessageHeader> header_;
  Mutex mutex_;
  std::unique_ptr<MeshTransfer> transfer_ ABSL_GUARDED_BY(mutex_);  // replaced by who waits alone
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_PEER_EXCHANGE_H_
