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
#include "server/engine/stop_token.h"
#include "server/programs/fused_run.h"
#include "server/programs/fusion.h"
#include "server/programs/sequences.h"
#include "server/programs/trace.h"

namespace chx::server {

// What a step was given when it was recorded, which a run must be given again.
struct ArgumentSpec {
  ArraySpec spec;
  absl::InlinedVector<std::pair<BackpropId, bool>, 1> graphs;  // and whether it keeps its gradient

  static ArgumentSpec Of(const Variable& argument);
  bool Fits(const Variable& argument) const;
};

// Whether the values that a kernel gets, such as labels and indices, may make it fail.
bool MayFailByValues(const PreparedKernel& kernel);

// One step's, for arguments and gradients of one kind. Used under the session's lock.
class Plan {
 public:
  // Leaves out what was computed before and what nothing depends on, fuses what can be, and lays
  // the temporaries out in one block per device. `checks_first`: what may fail by values that are
  // there before the run, such as labels, is tried out before anything is written.
  Plan(Trace trace, absl::Span<const Variable* const> arguments, const Devices& devices,
       bool checks_first = false);

  // Whether the plan does what the step's commands would do with these arguments, and all as it is.
  // What other sessions have, too, is held by the executor for the length of the run.
  bool Fits(const Executor& executor, absl::Span<Variable* const> arguments) const;
  // Whether it still fits after a run.
  bool repeatable() const { return repeatable_; }

  struct Progress {
    bool began = false;  // else nothing has run: the plan cannot be used now
    bool wrote = false;  // what can be seen outside, or it was about to
    int64_t times = 0;   // that have come to their end
    size_t command = 0;  // that has run last
    size_t call = 0;     // its first one that may not have
    size_t met = 0;      // the first one whose ranks have not been met for it
  };
  // Whose commands a run stands for: each step has the time that a command may take, and what has
  // begun to write can be cancelled no more.
  struct Source {
    StopToken* stop;
    uint64_t batch;
  };
  // One run, or several: `values` are those of the slots in each. *results is replaced. All memory
  // that a run needs is there before it begins. `source`: null: it is one command.
  absl::Status Run(Executor& executor, absl::Span<Variable* const> arguments, int64_t times,
                   absl::Span<const int64_t> values, std::vector<Array>* results,
                   Progress* progress, const Source* source = nullptr);

  // Whether an operator whose values may make it fail comes after, or makes, a write that can be
  // seen outside.
  bool MayFailHalfway() const;
  // Whether an operator that may fail so is left out, as nothing depends on it.
  bool DropsChecks() const { return drops_checks_; }

  // The time of each step of runs is measured from now on.
  void Measure() { measures_ = true; }
  // Appends lines that say what a run does (docs/protocol.md), until there are `most` bytes.
  void Describe(size_t most, std::string* text) const;
  // What it takes itself, about.
  int64_t Bytes() const;
  // By device, what a run needs at once: what it finds of the session's, temporaries, and results.
  std::vector<int64_t> RunBytes() const;
  // Of a run that has failed: the memory that has no value now, as that command, or what comes
  // after it, was to write it.
  std::vector<const Buffer*> Unwritten(absl::Span<Variable* const> arguments,
                                       const Progress& failed) const;

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
    // Of a collective beside which other steps run: the step before which it ends. 0: of no others.
    size_t beside_until = 0;
  };
  class Beside;
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
  void CheckFirst();
  // The object in calls that come first, with the calls that make it; -1: it is not known then.
  int SettledObject(int object, int depth, std::vector<TraceCall>* first);
  bool AddCheck(const TraceCall& call, std::vector<TraceCall>* first);
  int NewTemporary(DeviceId device, int64_t bytes);
  std::vector<Life> FindLives() const;
  void Fuse(const Devices& devices);
  void FindOverlaps();
  void LayOut();
  void FindPlaces();
  void FindSlots(absl::Span<const TraceSlot> slots);
  // plan_sequences.cc
  void MoveResultsLast(const Devices& devices);
  void FindSequences(const Devices& devices);
  Sequences Parts(const Devices& devices, bool may_vary, bool with_results) const;
  Sequences* StartSequences(const Executor& executor, absl::Span<const int64_t> values);

  absl::Status KeepAll(Executor& executor, absl::Span<Variable* const> arguments) const;
  absl::StatusOr<char*> AddressOf(size_t number, Executor& executor,
                                  absl::Span<Variable* const> arguments);
  absl::Status Prepare(Executor& executor, absl::Span<Variable* const> arguments);
  absl::Status RunStep(Executor& executor, const Step& step) const;
  // A step, or all of a part that begins with it: how many.
  absl::StatusOr<size_t> RunSteps(Executor& executor, size_t step, Sequences* sequences);
  absl::Status BeginStep(size_t step, const Source& source) const;
  bool WritesOutside(const TraceCall& call) const;
  absl::Status Repeat(Executor& executor, absl::Span<const int64_t> values, const Source* source,
                      Progress* progress);
  // The other ranks learn of collectives that a run does not come to, from that call on.
  void MeetWithout(Executor& executor, size_t first_call, const absl::Status& failed) const;
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
  // By device: behind the temporaries, for one kernel after the other.
  std::vector<int64_t> scratch_bytes_;
  std::vector<absl::InlinedVector<AttrValue*, 1>> slots_;  // the attributes that have each
  size_t first_write_ = 0;  // the first step that writes what can be seen outside
  bool repeatable_ = true;
  bool drops_checks_ = false;
  bool has_collectives_ = false;
  bool measures_ = false;
  bool prepared_ = false;  // once at least
  int64_t measured_runs_ = 0;
  Sequences sequences_;        // without the steps that have slots, or make results
  Sequences equal_sequences_;  // with slots: for values as in the run before
  Sequences whole_sequences_;  // with both: for memory of results that they have had before, too
  std::vector<int64_t> last_values_;
  std::vector<size_t> steady_;        // objects that are usually where they were in the last run
  std::vector<char*> addresses_;      // theirs
  std::vector<char*> all_addresses_;  // and those of results
  // During a run.
  std::vector<Array> arenas_;      // by device
  std::vector<Ref<Buffer>> made_;  // by object, of results
};

}  // namespace chx::server

#endif  // CHX_SERVER_PROGRAMS_PLAN_H_
