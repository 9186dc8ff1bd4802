// The programs of a session: steps that it has recorded, and repeats.
#ifndef CHX_SERVER_SESSION_PROGRAMS_H_
#define CHX_SERVER_SESSION_PROGRAMS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/command.h"
#include "server/autograd/apply.h"
#include "server/programs/plan.h"
#include "server/session/handle_table.h"
#include "server/sharing/withdrawal.h"

namespace chx::server {

class Recording;
struct SessionState;

// Handles that programs use, where those of clients do not come.
inline constexpr Handle kFirstProgramHandle = Handle{1} << 63;
inline bool IsOfProgram(Handle handle) { return handle >= kFirstProgramHandle; }
// Of these, those from here on are of runs (server/runs); and such numbers of programs.
inline constexpr Handle kFirstRunHandle = Handle{3} << 62;
inline bool IsOfRun(uint64_t number) { return number >= kFirstRunHandle; }
// More than these there are not in a session's life.
inline constexpr uint64_t kMaxRunHandles = uint64_t{1} << 48;

// What a program takes beside its records, of which strings double; and for each command.
inline constexpr int64_t kProgramBytes = 2048;
inline constexpr int64_t kProgramCommandBytes = 128;

// What a program takes, gives and does to what is not its own.
struct ProgramInterface {
  std::vector<ArraySpec> arguments;
  std::vector<ArraySpec> results;
  std::vector<bool> written_arguments;
  std::vector<bool> written_held;
  bool is_brief = false;  // its commands took less than kBriefProgram

  // Whether these are arrays as those that it was recorded with.
  bool Fits(absl::Span<const Variable* const> others) const;
};
// What others may wait for without being able to stop it.
inline constexpr std::chrono::milliseconds kBriefProgram(500);

// The commands of a step, which are the truth about it, and plans that do the same faster for
// arguments and gradients of one kind. Used under the session's lock.
struct Program {
  // A held array: the handle by which commands name it, and the program's own.
  struct Held {
    Handle named = 0;
    Handle own = 0;
  };

  std::string records;  // of the commands, with this daemon's ids of operators
  std::vector<TraceSlot> slots;
  Handles arguments;  // as the commands name them
  Handles outputs;
  std::vector<Held> held;
  std::vector<std::pair<uint16_t, RecordMode>> modes;  // that the commands name, as they were
  std::deque<std::unique_ptr<Plan>> plans;             // the last one that was made first
  std::string declined;                                // why there is no plan
  std::vector<int64_t> run_bytes;  // of the last plan, also of one that was too large
  int attempts = 0;                // to make one
  int64_t charged = 0;
  // As it was recorded; null: it has come from a snapshot and has not been run by its commands.
  std::unique_ptr<ProgramInterface> interface;
  absl::optional<bool> collectives;  // HasCollectives' answer, once it has been asked
  // Of one that another session has published: whether it may be run still. Null: the session's.
  std::shared_ptr<const Withdrawal> published;
};

// Whether its commands wait for other ranks.
bool HasCollectives(Program* program);

class Programs {
 public:
  explicit Programs(MemoryMeter* meter);
  ~Programs();

  static constexpr size_t kMaxPrograms = 1024;
  static constexpr size_t kMaxRecordsBytes = 16 << 20;  // of one

  // Null: none is being recorded.
  Recording* recording() { return recording_.get(); }
  void Start(std::unique_ptr<Recording> recording);
  std::unique_ptr<Recording> Stop();

  Program* Find(uint64_t number);
  // For a run, which keeps it whatever the client releases; null: there is none.
  std::shared_ptr<Program> Share(uint64_t number);
  size_t size() const { return programs_.size(); }
  void Add(uint64_t number, std::shared_ptr<Program> program);
  // Adds one that was written before, whose held arrays are bound, under these numbers. An error if
  // no recording can have made it.
  absl::Status Restore(absl::Span<const uint64_t> numbers, std::shared_ptr<Program> program);
  // Calls fn(number, program) for each, in no order. Runs have theirs under numbers of their own.
  template <typename Fn>
  void ForEach(Fn fn) const {
    for (const auto& [number, program] : programs_) fn(number, *program);
  }
  // The handles that programs of runs hold.
  void AddHeldByRuns(absl::flat_hash_set<Handle>* handles) const;
  std::shared_ptr<Program> Take(uint64_t number);
  // Runs keep theirs. The handles that the others hold are their owner's to forget.
  void Clear();
  // A handle that is not in the table.
  Handle NewHandle(const HandleTable& handles) {
    while (handles.contains(next_handle_)) ++next_handle_;
    return next_handle_++;
  }

 private:
  MemoryMeter* const meter_;
  std::unique_ptr<Recording> recording_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Program>> programs_;
  Handle next_handle_ = kFirstProgramHandle;
};

// Frees what a program holds of its session.
void FreeProgram(Program* program, SessionState* state);
// The same, unless somebody else has it, too.
void DropProgram(std::shared_ptr<Program> program, SessionState* state);

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_PROGRAMS_H_
