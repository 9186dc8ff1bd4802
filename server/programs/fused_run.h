// Calls of a plan that are run together: one block of rows, which are single elements if the calls
// are elementwise only, goes through all of them before the next one begins, and stays in the
// cache.
#ifndef CHX_SERVER_PROGRAMS_FUSED_RUN_H_
#define CHX_SERVER_PROGRAMS_FUSED_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/engine/executor.h"
#include "server/programs/fusion.h"
#include "server/programs/trace.h"

namespace chx::server {

// The kernels are those of the calls, which give each element as they would on whole arrays.
class FusedRun {
 public:
  // Of calls of one range of FindRuns, which outlive this and stay where they are. Objects that
  // are `local` are used nowhere else, and written first: of them there are only blocks.
  FusedRun(absl::Span<const TraceCall> calls, const CallRange& range,
           const std::function<bool(int object)>& local);

  // With the memory that the calls' tensors have now, and scratch_bytes() of scratch memory.
  absl::Status Run(Executor& executor, char* scratch) const;

  int64_t scratch_bytes() const { return parts_of_rows_ * part_bytes_; }

  // What it takes itself, about.
  int64_t Bytes() const;
  // Elements of the largest array that go through all calls together, at most.
  int64_t block_elements() const { return block_elements_; }

 private:
  struct Reduction {
    Folding folding;
    const KernelTensor* result;
    int64_t states;  // where they begin in those of a part
  };
  struct Call {
    const PreparedKernel* kernel;
    size_t first;                          // in tensors_: inputs, then outputs
    const Reduction* reduction = nullptr;  // that the call is: it has no outputs in tensors_
  };
  struct Operand {
    size_t tensor = 0;                      // in tensors_
    const KernelTensor* whole = nullptr;    // null: a local object
    absl::InlinedVector<int64_t, 3> steps;  // of `whole`, by dimension of rows_ through split_
    int object = -1;
    bool is_rowwise = false;  // the call's kernel: dimensions keep their numbers
    int64_t pitch = 0;        // of a local object: bytes from one row to the next
    size_t slot = 0;          // of a local object
    int64_t offset = 0;       // of its slot, in a thread's memory
    int rows_at = 0;          // the dimension of a block's tensor that is split_
  };

  void AddCall(const TraceCall& call, const std::function<bool(int object)>& local);
  void AddReduction(const CallRange::Reduction& reduction);
  // Dimensions of rows merged as far as all operands allow it.
  void Merge(const Shape& shape);
  // Gives local objects that live at the same time slots apart: their pitches.
  std::vector<int64_t> PlaceLocals();
  int64_t BytesPerRow(const std::vector<int64_t>& slots) const;
  void Split(int64_t bytes_per_row);
  void ShapeBlocks(const std::vector<int64_t>& slots);
  class Blocks;
  absl::Status RunBlocks(Stream& stream, int64_t begin, int64_t end) const;
  // The blocks of part `part` of the rows.
  absl::Status RunPart(Stream& stream, int64_t part, Blocks* blocks, char* states) const;
  absl::Status RunReductions(Executor& executor, char* states) const;

  const int row_dims_;
  std::vector<Reduction> reductions_;
  int64_t parts_of_rows_ = 0;  // that they have
  int64_t part_bytes_ = 0;     // of states
  std::vector<Call> calls_;
  std::vector<KernelTensor> tensors_;  // of a whole block
  std::vector<Operand> operands_;      // by call
  int64_t row_elements_ = 1;           // of the longest rows
  // A block has part of dimension split_ of the rows, and all of those inside of it.
  Shape rows_;
  int split_ = 0;
  int64_t extent_ = 1;  // of a block, along split_
  int64_t parts_ = 1;   // of split_
  int64_t num_blocks_ = 1;
  int64_t block_elements_ = 1;
  int64_t local_bytes_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_FUSED_RUN_H_
