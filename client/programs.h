// Steps that the daemon has recorded, and repeats at one command each.
#ifndef CHX_CLIENT_PROGRAMS_H_
#define CHX_CLIENT_PROGRAMS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/ref.h"
#include "client/array.h"
#include "client/command_queue.h"
#include "client/graph.h"
#include "client/graph_mirror.h"
#include "proto/command.h"
#include "proto/shared_names.h"

namespace chx {

// One recorded step. The daemon forgets it with the last reference.
class RecordedProgram : public RefCounted<RecordedProgram> {
 public:
  // A number in the step that is another one in each run: an attribute of an operator.
  struct Slot {
    int64_t operation = 0;  // among the step's operators, from 0
    int64_t attribute = 0;
  };

  ~RecordedProgram();

  const Ref<Session>& session() const { return session_; }
  // Why runs go by the step's commands, and not by a plan; empty: they go by a plan.
  const std::string& declined() const { return declined_; }
  size_t num_slots() const { return num_slots_; }
  uint64_t number() const { return number_; }  // the daemon's
  const std::vector<ArraySpec>& arguments() const { return arguments_; }
  const std::vector<ArraySpec>& results() const { return results_; }
  // An error unless it can be run with these arrays.
  absl::Status CheckArguments(absl::Span<ArrayBody* const> arguments) const;

  // Does what the step does, `times` times. `values`: of the slots, one time after the other; a
  // float's bits. Gives the results of the last time, which are in no graph. Does not wait.
  absl::StatusOr<std::vector<ArrayPtr>> Run(absl::Span<ArrayBody* const> arguments, int64_t times,
                                            absl::Span<const int64_t> values);
  // Once, with results in the default graph, as those of the step. Only if keeps_graph() and no
  // argument is in a graph.
  absl::StatusOr<std::vector<ArrayPtr>> RunInGraph(absl::Span<ArrayBody* const> arguments,
                                                   absl::Span<const int64_t> values);
  // Whether the step has only computed, from arguments in no graph and from leaves, arrays of which
  // the client knows on which leaves they depend.
  bool keeps_graph() const { return keeps_graph_; }
  // What a run does, as lines of fields with tabs in between (docs/protocol.md). `measure`: runs
  // from now on are measured. Waits for the daemon.
  absl::StatusOr<std::string> Explain(bool measure);

 private:
  friend class Programs;
  absl::StatusOr<std::vector<ArrayPtr>> Send(absl::Span<ArrayBody* const> arguments, int64_t times,
                                             absl::Span<const int64_t> values);
  RecordedProgram(Ref<Session> session, uint64_t number)
      : session_(std::move(session)), number_(number) {}

  const Ref<Session> session_;
  uint64_t number_;  // 0: the daemon has none
  std::vector<ArraySpec> arguments_;
  std::vector<ArraySpec> results_;
  bool keeps_graph_ = false;
  std::vector<std::vector<Ref<GraphNode>>> leaves_;  // by result, if keeps_graph_
  size_t num_slots_ = 0;
  std::string declined_;
};

// Owned by a Session. One recording at a time; while there is one, other threads' calls are errors,
// and so is whatever waits for the daemon.
class Programs {
 public:
  Programs(Session* session, CommandQueue* queue, GraphMirror* graphs)
      : session_(*session), queue_(*queue), graphs_(*graphs) {}
  Programs(const Programs&) = delete;

  // What the calling thread calls from now on runs as ever, and is the step.
  absl::Status Begin(absl::Span<ArrayBody* const> arguments);
  // How many operators the step has so far.
  int64_t num_operations() const;
  // An array that the step has made is there before each run, as the last one has left it.
  absl::Status Hold(const ArrayBody& array);
  // What gives the numbers of attributes that vary, of one run.
  using Numbers = std::function<absl::Status(std::vector<int64_t>* values)>;
  // What varies in a step of the C++ API (client/program.h): slots, and what gives their values.
  struct Varying {
    std::vector<RecordedProgram::Slot> slots;
    std::vector<Numbers> numbers;
  };
  // The calling thread's; null: it records nothing, or says itself what varies.
  Varying* varying() const { return queue_.Records() ? varying_ : nullptr; }
  // Of what the calling thread records: it changes gradients.
  void NoteGradients();
  // Of the operator that is called next: its attributes at these positions vary.
  void Vary(absl::Span<const int64_t> attributes, Numbers numbers);
  // From Begin on; null again before End or Abandon.
  void SetVarying(Varying* varying) { varying_ = varying; }

  // Waits for the daemon. After an error there is no program, but the step has been done.
  absl::StatusOr<Ref<RecordedProgram>> End(absl::Span<ArrayBody* const> results,
                                           absl::Span<const RecordedProgram::Slot> slots);
  // Ends the recording without a program.
  void Abandon();
  // Has programs that are published, which take and give what `specs` say. Waits for the daemon.
  absl::StatusOr<std::vector<Ref<RecordedProgram>>> Open(command::OpenPrograms open,
                                                         std::vector<SharedProgram> specs);

 private:
  friend class RecordedProgram;

  Session& session_;
  CommandQueue& queue_;
  GraphMirror& graphs_;
  uint64_t last_number_ = 0;
  uint64_t number_ = 0;  // of the one that is being recorded; 0: none is
  std::vector<ArraySpec> arguments_;
  Varying* varying_ = nullptr;  // used by the thread that records
  bool in_graph_ = false;       // arguments are, or gradients have changed
};

}  // namespace chx

#endif  // CHX_CLIENT_PROGRAMS_H_
