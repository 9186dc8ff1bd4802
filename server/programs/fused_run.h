// Elementwise calls of a plan that are run together: one block of elements goes through all of
// them before the next one begins, so that it stays in the cache.
#ifndef CHX_SERVER_PROGRAMS_FUSED_RUN_H_
#define CHX_SERVER_PROGRAMS_FUSED_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/engine/executor.h"
#include "server/programs/trace.h"

namespace chx::server {

// The kernels are those of the calls, which give each element as they would on whole arrays.
class FusedRun {
 public:
  // Of calls of one range of FindRuns, which outlive this and stay where they are. Objects that
  // are `local` are used nowhere else, and written first: of them there are only blocks.
  FusedRun(absl::Span<const TraceCall> calls, const std::function<bool(int object)>& local);

  // With the memory that the calls' tensors have now.
  absl::Status Run(Executor& executor) const;

  // What it takes itself, about.
  int64_t Bytes() const;
  // Elements that go through all calls together, at most.
  int64_t block_elements() const { return block_elements_; }

 private:
  struct Call {
    const PreparedKernel* kernel;
    size_t first;  // in tensors_: inputs, then outputs
  };
  struct Operand {
    size_t tensor = 0;                      // in tensors_
    const KernelTensor* whole = nullptr;    // null: a local object
    absl::InlinedVector<int64_t, 3> steps;  // of `whole`, by dimension through split_
    int object = -1;
    int64_t offset = 0;  // of a local object, in a thread's memory
  };

  void AddCall(const TraceCall& call, const std::function<bool(int object)>& local);
  // Dimensions merged as far as all operands allow it.
  void Merge(const Shape& shape);
  // Gives local objects that live at the same time memory apart; bytes for each element.
  int64_t PlaceLocals();
  void Split(int64_t bytes_per_element);
  absl::Status RunBlocks(Stream& stream, int64_t begin, int64_t end) const;

  std::vector<Call> calls_;
  std::vector<KernelTensor> tensors_;  // of a whole block
  std::vector<Operand> operands_;      // by call
  // A block has part of dimension split_, and all of those inside of it.
  Shape shape_;
  int split_ = 0;
  int64_t extent_ = 1;  // of a block, along split_
  int64_t parts_ = 1;   // of split_
  int64_t num_blocks_ = 1;
  int64_t block_elements_ = 1;
  int64_t local_bytes_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_FUSED_RUN_H_
