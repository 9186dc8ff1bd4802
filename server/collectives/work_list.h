// What a collective does with its ranks' arrays, in parts that any thread may take.
#ifndef CHX_SERVER_COLLECTIVES_WORK_LIST_H_
#define CHX_SERVER_COLLECTIVES_WORK_LIST_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "ops/collective.h"
#include "server/engine/collectives.h"

namespace chx::server {

// The ranks' threads take parts one after the other, so that none waits for one that is late. An
// element is computed once, from the ranks' elements in the order of ranks, and then copied: the
// result does not depend on who takes what. Thread-safe.
class WorkList {
 public:
  // `calls`: one for each rank, which agree, and are there as long as this is.
  explicit WorkList(std::vector<const CollectiveCall*> calls);

  // Takes parts until there are none left, or Stop. `*taken` is how many have been finished.
  absl::Status Work(HostKernels kernels, int64_t* taken);
  void Stop() { stopped_.store(true, std::memory_order_relaxed); }
  int64_t size() const { return size_; }

 private:
  // The moves of one array of the call.
  struct Item {
    int64_t first = 0;  // part
    int64_t parts = 0;  // of each move
    int64_t block = 0;  // elements
    Dtype dtype = Dtype::kFloat32;
  };
  // Elements [begin, begin + count) of a block.
  struct Part {
    size_t array = 0;
    CollectiveMove move;
    int64_t begin = 0;
    int64_t count = 0;
  };

  Part PartAt(int64_t number) const;
  // Where the part begins in a rank's input or output.
  char* In(const Part& part, int rank) const;
  char* Out(const Part& part, int rank) const;
  absl::Status Run(const Part& part, HostKernels kernels) const;
  absl::Status Reduce(const Part& part, char* result, HostKernels kernels) const;

  const std::vector<const CollectiveCall*> calls_;
  const CollectivePattern& pattern_;
  const int root_;
  const GroupReduction reduction_;
  std::vector<Item> items_;
  int64_t size_ = 0;
  std::atomic<int64_t> next_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace chx::server

#endif  // CHX_SERVER_COLLECTIVES_WORK_LIST_H_
