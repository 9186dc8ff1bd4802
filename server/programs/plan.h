// A step as it is repeated: kernels that are chosen, specs that are inferred, memory that is
// planned.
#ifndef CHX_SERVER_PROGRAMS_PLAN_H_
#define CHX_SERVER_PROGRAMS_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/autograd/variable.h"
#include "server/engine/executor.h"
#include "server/programs/fused_run.h"
#include "server/programs/fusion.h"
#include "server/programs/trace.h"

namespace chx::server {

// What a step was given when it was recorded, which a run must be given again.
struct ArgumentSpec {
  ArraySpec spec;
  absl::InlinedVector<std::pair<BackpropId, bool>, 1> graphs;  // and whether it keeps its gradient

  static ArgumentSpec Of(const Variable& argument);
  bool Fits(const Variable& argument) const;
};

// One step's, for arguments and gradients of one kind. Used under the session's lock.
class Plan {
 public:
  // Leaves out what was computed before and what nothing depends on, fuses what can be, and lays
  // the temporaries out in one block per device.
  Plan(Trace trace, absl::Span<const Variable* const> arguments, const Devices& devices);

  // Whether the plan does what the step's commands would do with these arguments, and all as it is.
  // What other sessions have, too, is held by the executor for the length of the run.
  bool Fits(const Executor& executor, absl::Span<Variable* const> arguments) const;
  // Whether it still fits after a run.
  bool repeatable() const { return repeatable_; }

  struct Progress {
    bool began = false;  // else nothing has run: the plan cannot be used now
    size_t command = 0;  // that has run last
    size_t step = 0;     // of the plan, likewise
  };
  // One run, or several: `values` are those of the slots in each. *results is replaced.
  absl::Status Run(Executor& executor, absl::Span<Variable* const> arguments, int64_t times,
                   absl::Span<const int64_t> values, std::vector<Array>* results,
                   Progress* progress);

  // Whether an operator whose values may make it fail comes after, or makes, a write that can be
  // seen outside.
  bool MayFailHalfway() const;
  // Whether an operator that may fail so is left out, as nothing depends on it.
  bool DropsChecks() const { return drops_checks_; }
  // Whether a run that has come to this step may have written what can be seen outside.
  bool HasWritten(size_t step) const;

  // The time of each step of runs is measured from now on.
  void Measure() { measures_ = true; }
  // Appends lines that say what a run does (docs/protocol.md), until there are `most` bytes.
  void Describe(size_t most, std::string* text) const;
  // What it takes itself, about.
  int64_t Bytes() const;
  // Of a run that has failed at a command: the memory that has no value now, as later commands, or
  // that one, were to write it.
  std::vector<const Buffer*> Unwritten(absl::Span<Variable* const> arguments, size_t failed) const;

 private:
  using Kind = TraceObject::Kind;
  // A place where a tensor's address is.
  struct Place {
    KernelTensor* tensor;
    int64_t offset;
  };
  struct Object {
    TraceObject traced;
    int64_t arena_offset = 0;  // kTemporary
    bool in_blocks = false;    // kTemporary: a fused run's own, with no place in the arena
    std::vector<Place> places;
    char* address = nullptr;  // which the places have now
  };

  // Calls that run as one.
  struct Step {
    CallRange calls;
    std::unique_ptr<FusedRun> fused;  // of several
    int64_t nanoseconds = 0;          // of all runs that were measured
  };
  // Positions of steps between which an object has a value.
  struct Life {
    size_t first = 0;
    size_t last = 0;
    bool used = false;
    bool read_first = false;

    void Add(size_t step, bool read);
    bool Meets(const Life& other) const { return first <= other.last && other.first <= last; }
  };

  void DropUnused();
  std::vector<Life> FindLives() const;
  void Fuse(const Devices& devices);
  void LayOut();
  void FindPlaces();
  void FindSlots(absl::Span<const TraceSlot> slots);
  absl::Status KeepAll(Executor& executor, absl::Span<Variable* const> arguments) const;
  absl::StatusOr<char*> AddressOf(size_t number, Executor& executor,
                                  absl::Span<Variable* const> arguments);
  absl::Status Prepare(Executor& executor, absl::Span<Variable* const> arguments);
  absl::Status RunStep(Executor& executor, const Step& step) const;
  bool WritesOutside(const Step& step) const;
  absl::Status Repeat(Executor& executor, absl::Span<const int64_t> values, Progress* progress);
  void Finish(absl::Span<Variable* const> arguments, std::vector<Array>* results);
  ArrayNode* NodeOf(const TraceGradient& gradient, absl::Span<Variable* const> arguments) const;
  Array ArrayOf(const TraceArray& kept, absl::Span<Variable* const> arguments) const;
  // The whole memory of an object that is there before the run, from where an argument begins; not
  // valid for others.
  Array Found(const TraceObject& object, absl::Span<Variable* const> arguments) const;

  std::vector<const OpDef*> shared_;   // of calls whose results there are already
  std::vector<const OpDef*> dropped_;  // of calls that nothing depends on
  std::vector<ArgumentSpec> arguments_;
  std::vector<TraceCall> calls_;
  std::vector<Step> steps_;
  std::vector<Object> objects_;
  std::vector<TraceArray> results_;
  std::vector<TraceGradient> gradients_;
  std::vector<int64_t> arena_bytes_;  // by device
  std::vector<AttrValue*> slots_;
  bool repeatable_ = true;
  bool drops_checks_ = false;
  bool measures_ = false;
  int64_t measured_runs_ = 0;
  // During a run.
  std::vector<Array> arenas_;      // by device
  std::vector<Ref<Buffer>> made_;  // by object, of results
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_PLAN_H_
