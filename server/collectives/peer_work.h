// What a collective moves between the daemons of its group.
#ifndef CHX_SERVER_COLLECTIVES_PEER_WORK_H_
#define CHX_SERVER_COLLECTIVES_PEER_WORK_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "ops/collective.h"
#include "server/collectives/group_layout.h"
#include "server/collectives/mesh.h"
#include "server/collectives/ring_reduction.h"
#include "server/engine/collectives.h"

namespace chx::server {

// Of one call, which all ranks agree on. The elements of a daemon's own ranks are reduced before
// they leave it, and what it gets comes once, however many ranks it has. A reduction has the same
// bits at all ranks, and the same each time; its order is that of RingReduction or Mesh. Used by
// one thread.
class PeerWork {
 public:
  // `calls`: by rank; null for those of other daemons.
  PeerWork(const std::vector<const CollectiveCall*>& calls, const GroupLayout& layout, Mesh* mesh,
           RingReduction* ring, std::chrono::milliseconds timeout, HostKernels kernels);

  // Empty, or what went wrong: then the daemons are out of step.
  std::string Run();
  // Before that, for arrays that are reduced to all ranks and for which there is room in the
  // message with the call: Give writes their elements, so many bytes, and Take gets those of each
  // daemon.
  int64_t Give(char* elements, int64_t room);
  void Take(absl::FunctionRef<char*(int daemon)> elements);
  // Not OK: that was it.
  const absl::Status& kernel_failed() const { return kernel_failed_; }

 private:
  // A transfer under way, and where else its elements go.
  struct Arrival {
    std::unique_ptr<MeshTransfer> transfer;
    const char* data = nullptr;  // null: it is sent
    size_t bytes = 0;
    std::vector<char*> copies;
  };

  const CollectiveCall& Own() const { return *calls_[layout_.local_ranks()[0]]; }
  int64_t BlockBytes(size_t array) const;
  char* In(size_t array, int rank, int64_t block) const;
  char* Out(size_t array, int rank, int64_t block) const;
  // Of this daemon's ranks, those to which the move goes.
  std::vector<char*> Destinations(size_t array, const CollectiveMove& move) const;

  void Move(size_t array, int64_t number, const CollectiveMove& move);
  // Waits for the transfers so far, and finishes the moves.
  std::string Settle();
  bool ReducesToAll() const;
  std::string ReduceToAll();
  // Of what all daemons have reduced, at one of this daemon's ranks.
  void FinishToAll(size_t array, const std::vector<char*>& here);
  std::string ReduceToOne(size_t array, const CollectiveMove& move);
  // Elements [begin, begin + count) of this daemon's ranks, reduced: at `scratch`, or where they
  // are.
  const char* ReduceOwn(size_t array, const CollectiveMove& move, int64_t begin, int64_t count,
                        char* scratch);
  Mesh::Reduction Reduction(Dtype dtype);
  // Keeps the first error of a kernel, which ends the exchange.
  void Note(const absl::Status& status);

  const std::vector<const CollectiveCall*>& calls_;
  const GroupLayout& layout_;
  Mesh& mesh_;
  RingReduction& ring_;
  const std::chrono::milliseconds timeout_;
  const HostKernels kernels_;
  const CollectivePattern& pattern_;
  const int root_;
  const GroupReduction reduction_;
  std::vector<bool> given_;  // by array
  std::vector<Arrival> arrivals_;
  absl::Status kernel_failed_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_PEER_WORK_H_
