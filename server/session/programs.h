// The programs of a session: steps that it has recorded, and repeats.
#ifndef CHX_SERVER_SESSION_PROGRAMS_H_
#define CHX_SERVER_SESSION_PROGRAMS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/command.h"
#include "server/autograd/apply.h"
#include "server/programs/plan.h"
#include "server/programs/recorder.h"
#include "server/session/handle_table.h"

namespace chx::server {

struct SessionState;

// Handles that programs use, where those of clients do not come.
inline constexpr Handle kFirstProgramHandle = Handle{1} << 63;

// The commands of a step, which are the truth about it, and plans that do the same faster for
// arguments and gradients of one kind. Used under the session's lock.
struct Program {
  // A held array: the handle by which commands name it, and the program's own.
  struct Held {
    Handle named = 0;
    Handle own = 0;
  };

  std::string records;  // of the commands
  size_t num_commands = 0;
  int64_t num_operations = 0;
  std::vector<TraceSlot> slots;
  Handles arguments;  // as the commands name them
  Handles outputs;
  std::vector<Held> held;
  std::vector<std::pair<uint16_t, RecordMode>> modes;  // that the commands name, as they were
  std::deque<std::unique_ptr<Plan>> plans;             // the last one that was made first
  std::string declined;                                // why there is no plan
  int attempts = 0;                                    // to make one
  int64_t charged = 0;
};

// What is noted while the commands of a step run; of a new program, the commands themselves, too.
class Recording {
 public:
  Recording(uint64_t number, SessionState* state, bool keep_commands);
  ~Recording() { Abandon(); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  uint64_t number() const { return number_; }
  // The arguments, before the first command.
  absl::Status Begin(absl::Span<const Handle> arguments);
  // Around each command. `num_errors`: how many there are in the session's output.
  void Before(const Command& command);
  void After(const Command& command, bool failed);
  // The step cannot be recorded.
  void Fail(absl::Status why);

  const absl::Status& status() const { return status_; }
  // After the last command. Takes the program; its plan, if there can be one, is in it.
  absl::StatusOr<std::unique_ptr<Program>> Finish(absl::Span<const Handle> outputs,
                                                  absl::Span<const int64_t> slots);
  // The same for a program that there is: only the plan.
  void AddPlan(absl::Span<const Handle> outputs, Program* program);
  // Frees what it holds.
  void Abandon();

 private:
  void KeepCommand(const Command& command);
  bool Charge(int64_t bytes);
  void Hold(Handle handle, bool constant);
  void Adopt(Handle handle);
  absl::Status CheckLeaf(const Variable& variable) const;
  absl::Status SetSlots(absl::Span<const int64_t> slots);
  absl::StatusOr<std::unique_ptr<Plan>> MakePlan(absl::Span<const Handle> outputs,
                                                 absl::Span<const TraceSlot> slots);

  const uint64_t number_;
  SessionState& state_;
  const bool keeps_;
  Recorder recorder_;
  std::unique_ptr<Program> program_;
  std::vector<Variable> arguments_;  // as they were at first; whatever becomes of their handles
  absl::flat_hash_set<Handle> argument_handles_;
  int64_t recorded_ = 0;  // of the recorder's bytes, charged
  absl::flat_hash_set<Handle> made_;
  absl::flat_hash_map<Handle, Handle> held_;
  size_t num_commands_ = 0;
  std::vector<size_t> num_attributes_;  // by operator
  absl::Status status_;
};

class Programs {
 public:
  explicit Programs(MemoryMeter* meter) : meter_(meter) {}
  ~Programs() { Clear(); }

  static constexpr size_t kMaxPrograms = 1024;

  // Null: none is being recorded.
  Recording* recording() { return recording_.get(); }
  void Start(std::unique_ptr<Recording> recording) { recording_ = std::move(recording); }
  std::unique_ptr<Recording> Stop() { return std::move(recording_); }

  Program* Find(uint64_t number);
  size_t size() const { return programs_.size(); }
  void Add(uint64_t number, std::unique_ptr<Program> program);
  std::unique_ptr<Program> Take(uint64_t number);
  // The handles that they hold are their owner's to forget.
  void Clear();
  // A handle that is not in the table.
  Handle NewHandle(const HandleTable& handles) {
    while (handles.contains(next_handle_)) ++next_handle_;
    return next_handle_++;
  }

 private:
  MemoryMeter* const meter_;
  std::unique_ptr<Recording> recording_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Program>> programs_;
  Handle next_handle_ = kFirstProgramHandle;
};

// Frees what a program holds of its session.
void FreeProgram(Program* program, SessionState* state);

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_PROGRAMS_H_
