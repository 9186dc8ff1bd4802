// Process groups: sessions whose operators exchange arrays (docs/distributed.md).
//
//   absl::StatusOr<chx::GroupOptions> options = chx::GroupOptions::FromEnvironment();
//   absl::StatusOr<chx::ProcessGroup> group = chx::ProcessGroup::Init(*session, *options);
//   const std::vector<chx::Array> sums = chx::distributed::all_reduce({x}, *group);
//   const chx::Array rows = chx::distributed::all_gather(x, *group);
#ifndef CHX_CLIENT_DISTRIBUTED_H_
#define CHX_CLIENT_DISTRIBUTED_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/session.h"
#include "ops/attr.h"

namespace chx {

// Which group, and which rank of it a session is.
struct GroupOptions {
  std::string name = "default";  // 1 to 200 bytes
  int64_t rank = 0;
  int64_t size = 1;
  std::string secret;  // sessions that do not know it are in another group
  // Where ranks that are sessions of several daemons meet: HOST:PORT of one of these daemons, its
  // --peer-address. Empty: all are sessions of one daemon.
  std::string address;

  // As what starts the processes says: RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and
  // OMPI_COMM_WORLD_SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), or JOB_COMPLETION_INDEX and
  // WORLD_SIZE (an indexed Job of Kubernetes); CHX_GROUP_NAME, CHX_GROUP_SECRET and
  // CHX_GROUP_ADDRESS if they are set.
  static absl::StatusOr<GroupOptions> FromEnvironment();
  // Whether any of these pairs is set.
  static bool AreInEnvironment();
};

// A session's place in a group. Copies are the same place, which lasts until Leave or the end of
// the session. Thread-safe, but ranks have to call their collectives in the same order.
class ProcessGroup {
 public:
  // Waits until all ranks have come: sessions of one tenant, each of which gives the same name,
  // secret, address and size. kTimeout: one has not; kValue: ranks or sizes do not fit.
  static absl::StatusOr<ProcessGroup> Init(Session& session, const GroupOptions& options);

  const std::string& name() const { return options_.name; }
  int rank() const { return static_cast<int>(options_.rank); }
  int size() const { return static_cast<int>(options_.size); }
  Session& session() const { return *session_; }
  // The daemon's name for it.
  int64_t number() const { return number_; }
  // The group as collectives take it.
  operator Ints() const { return {number_, options_.rank, options_.size}; }  // NOLINT

  // A group of some ranks of this one, which are numbered anew in the order given. All of these
  // call it, the others need not: they get nothing. `name` tells groups of the same ranks apart.
  absl::StatusOr<absl::optional<ProcessGroup>> Sub(absl::Span<const int> ranks,
                                                   const std::string& name = "") const;
  // Waits until all ranks have called it, and what they called before has run.
  absl::Status Barrier() const;
  // The other ranks' collectives fail from now on.
  absl::Status Leave() const;

 private:
  ProcessGroup(Ref<Session> session, GroupOptions options, int64_t number)
      : session_(std::move(session)), options_(std::move(options)), number_(number) {}

  Ref<Session> session_;
  GroupOptions options_;
  int64_t number_ = 0;
};

// How the ranks of a process group reduce gradients while they compute them.
struct GradientReduction {
  int64_t reduction = 1;                    // as all_reduce's: the mean
  absl::optional<Dtype> dtype;              // that they are exchanged in; none: their own
  int64_t bucket_bytes = int64_t{1} << 20;  // that are reduced at once, about
  // Each pass adds what the pass before has begun to reduce, the first one zeros: nobody waits
  // between a pass and the next one's end.
  bool delayed = false;
  uint64_t reducer = 0;  // whose passes these are: delayed ones of others are not theirs
};

namespace internal {

// A number that no other reducer of this process has.
uint64_t NewReducer();

}  // namespace internal

// A backward pass of each rank, whose gradients the ranks reduce while they compute them:
//
//   const chx::GradientReducer reducer(*group, {w1, b1, w2, b2});
//   absl::Status status = reducer.Backward(loss);  // then w1.Grad() is the mean of all ranks'
//
// All ranks give the same parameters, in the order in which the model uses them.
class GradientReducer {
 public:
  // The parameters require gradients in the graph of the passes.
  GradientReducer(ProcessGroup group, std::vector<Array> parameters,
                  GradientReduction reduction = {})
      : group_(std::move(group)), parameters_(std::move(parameters)), reduction_(reduction) {
    reduction_.reducer = internal::NewReducer();
  }

  // Each parameter's gradient is increased by what the ranks have computed together, by zeros where
  // no loss depends on it; those of other arrays by this rank's. Every rank has to call it.
  absl::Status Backward(absl::Span<const Array> losses, const BackwardArgs& args = {}) const;
  absl::Status Backward(const Array& loss, const BackwardArgs& args = {}) const {
    return Backward(absl::MakeConstSpan(&loss, 1), args);
  }

 private:
  ProcessGroup group_;
  std::vector<Array> parameters_;
  GradientReduction reduction_;
};

namespace internal {

// The parts of ProcessGroup, for other languages: the new number.
absl::StatusOr<int64_t> JoinGroup(Session& session, const GroupOptions& options);
absl::Status LeaveGroup(Session& session, int64_t number);

}  // namespace internal
}  // namespace chx

#endif  // CHX_CLIENT_DISTRIBUTED_H_
