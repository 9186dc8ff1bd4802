// Writes down what a step does, while it runs.
#ifndef CHX_SERVER_PROGRAMS_RECORDER_H_
#define CHX_SERVER_PROGRAMS_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/autograd/variable.h"
#include "server/engine/kernel_observer.h"
#include "server/programs/trace.h"

namespace chx::server {

// Between Begin and Finish all kernels of the session are the step's. Memory is told apart by its
// buffer's serial: temporaries are freed and made as ever. Used under the session's lock.
class Recorder final : public KernelObserver {
 public:
  // `last_buffer`: the serial of the last buffer that there is. `may_wait`: there may be
  // collectives.
  Recorder(uint64_t last_buffer, bool may_wait) : last_buffer_(last_buffer), may_wait_(may_wait) {}

  // Before the first command. Arguments in their order.
  void AddArgument(const Variable& argument);
  // An array node of a handle, whose gradient may be another one after the step.
  void WatchGradient(ArrayNode* node) { Watch(node, -1); }

  // The commands of the step, by number. `op`: null for those that are no operator.
  void BeginCommand(size_t number, const OpDef* op);
  // Of the last one: its results are in a graph.
  void NoteGraph() { in_graph_.insert(num_operations_ - 1); }
  // An array that a command uses and that was there before, or has come from elsewhere;
  // `constant`: the step itself has uploaded it.
  void AddHeld(const Array& array, bool constant);
  // Of a command: it replaces the gradient of a node whatever it was.
  void ReplaceGradient(const ArrayNode* node);
  // Of a command: it asks for the gradient.
  void UseGradient(const ArrayNode* node);

  void Ran(const KernelCall& call, absl::Span<const Array* const> arrays, int64_t scratch) override;
  void Transferred() override;
  bool RunsNow(bool beyond) override;
  // Why the step cannot be repeated as a plan; it may still be run by its commands.
  void Decline(std::string why);
  // The same, and lets go of all that it has noted.
  void GiveUp(std::string why);
  // What it takes, about.
  int64_t Bytes() const { return bytes_; }

  // An array that the step has made is there before each run from now on.
  void Adopt(const Array& array);
  bool Holds(const Array& array) const;
  bool IsConstant(const Array& array) const;
  // Whether the step has written to the memory of an argument or of a held array.
  bool Writes(const Array& array) const;
  // Whether the step has written to a constant: it would find it so when it is run again.
  bool WritesConstant() const;
  // After the last command. An Unimplemented error: there can be no plan.
  absl::StatusOr<Trace> Finish(absl::Span<const Array* const> results,
                               absl::Span<const TraceSlot> slots);

 private:
  struct Watched {
    Ref<ArrayNode> node;
    int argument = -1;
    uint64_t buffer = 0;  // of the gradient; 0: none
    bool unique = false;
    ArraySpec spec;
    bool decided = false;
    bool replaced = false;
  };

  void Watch(ArrayNode* node, int argument);
  // The object that a buffer is, a new one if need be.
  int ObjectOf(const Array& array);
  TraceTensor Locate(const KernelTensor& tensor, absl::Span<const Array* const> arrays);
  TraceCall Traced(const KernelCall& call, absl::Span<const Array* const> arrays);
  bool IsUntouched(const Watched& watched) const;
  void FinishGradients();
  void CheckSlot(const TraceSlot& slot);
  TraceArray Keep(const Array& array);
  // Null: it has not been used.
  const TraceObject* Find(const Array& array) const;

  const uint64_t last_buffer_;
  const bool may_wait_;
  Trace trace_;
  std::string declined_;
  int64_t bytes_ = 0;
  absl::flat_hash_map<uint64_t, int> objects_;    // by serial
  absl::flat_hash_map<uint64_t, int> gradients_;  // by serial, of those that there were
  absl::flat_hash_map<const ArrayNode*, size_t> watched_;
  std::vector<Watched> nodes_;
  size_t command_ = 0;
  bool is_operator_ = false;
  int64_t num_operations_ = 0;
  std::vector<const OpDef*> operators_;
  absl::flat_hash_set<int64_t> in_graph_;  // operators
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_RECORDER_H_
