// A step while it is recorded.
#ifndef CHX_SERVER_SESSION_RECORDING_H_
#define CHX_SERVER_SESSION_RECORDING_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/programs/recorder.h"
#include "server/session/programs.h"
#include "server/session/session_state.h"

namespace chx::server {

// What is noted while the commands of a step run; of a new program, the commands themselves, too.
class Recording {
 public:
  Recording(uint64_t number, SessionState* state, bool keep_commands);
  // Of a window that nobody has asked to record: what is noted is charged elsewhere.
  Recording(SessionState* state, MemoryMeter* meter);
  // Frees what it holds, unless Finish has given it away.
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  uint64_t number() const { return number_; }
  // The arguments, before the first command.
  absl::Status Begin(absl::Span<const Handle> arguments);
  // Around each command.
  void Before(const Command& command);
  // `failure`: of the command; null: there is none.
  void After(const Command& command, const RootError* failure);
  // The step cannot be recorded.
  void Fail(absl::Status why);

  const absl::Status& status() const { return status_; }
  // After the last command. Takes the program; its plan, if there can be one, is in it.
  absl::StatusOr<std::unique_ptr<Program>> Finish(absl::Span<const Handle> outputs,
                                                  absl::Span<const int64_t> slots);
  // The same for a program that there is: only the plan.
  void AddPlan(absl::Span<const Handle> outputs, Program* program);
  // Only the plan, of a window.
  absl::StatusOr<std::unique_ptr<Plan>> FinishPlan(absl::Span<const Array* const> results,
                                                   absl::Span<const TraceSlot> slots);
  // Lets go of all that is noted: there is no memory for it.
  void GiveUp();

 private:
  void KeepCommand(const Command& command);
  bool Charge(int64_t bytes);
  void Hold(Handle handle, bool constant);
  void Adopt(Handle handle);
  const ArrayNode* NodeOf(Handle handle, BackpropId id) const;
  void NoteMode(uint16_t number);
  template <typename C>
  void NoteGradients(const C& c);
  absl::Status CheckLeaf(const Variable& variable) const;
  absl::Status SetSlots(absl::Span<const int64_t> slots);
  void NoteInterface(absl::Span<const Variable* const> results, Program* program) const;
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(absl::Span<const Handle> outputs,
                                                 Program* program);
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(absl::Span<const Array* const> results,
                                                 absl::Span<const TraceSlot> slots);

  const uint64_t number_;
  SessionState& state_;
  MemoryMeter& meter_;
  const bool keeps_;
  const bool of_window_;
  Recorder recorder_;
  std::unique_ptr<Program> program_;
  std::vector<Variable> arguments_;  // as they were at first; whatever becomes of their handles
  absl::flat_hash_set<Handle> argument_handles_;
  int64_t recorded_ = 0;  // of the recorder's bytes, charged
  absl::flat_hash_set<Handle> made_;
  absl::flat_hash_set<Handle> held_;
  size_t num_commands_ = 0;
  std::vector<size_t> num_attributes_;           // by operator
  std::chrono::steady_clock::time_point began_;  // the command that runs
  std::chrono::steady_clock::duration ran_{0};   // commands
  absl::Status status_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_RECORDING_H_
