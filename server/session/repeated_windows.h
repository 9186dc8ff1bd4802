// Windows of commands that a client sends again and again, which run as one plan.
#ifndef CHX_SERVER_SESSION_REPEATED_WINDOWS_H_
#define CHX_SERVER_SESSION_REPEATED_WINDOWS_H_

#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/command.h"
#include "server/autograd/graph_template.h"
#include "server/engine/memory_budget.h"
#include "server/programs/plan.h"
#include "server/session/window_search.h"
#include "server/session/window_shape.h"

namespace chx::server {

class Recording;
struct CommandContext;
struct SessionState;

// Nobody has to ask for it, and nobody can tell, but by the time that it takes: a window that is
// not as those before, or cannot run as a plan, is carried out command by command. Used under the
// session's lock.
class RepeatedWindows {
 public:
  // Commands that a caller may have to keep until more come.
  static constexpr size_t kMaxPending = 2 * WindowSearch::kMaxPeriod;
  static constexpr size_t kMore = ~size_t{0};

  // Not inline, nor is what follows from it: it takes a second to compile in each file.
  RepeatedWindows(bool enabled, MemoryAccountPtr account);
  ~RepeatedWindows();
  RepeatedWindows(const RepeatedWindows&) = delete;

  // Carries out the window that the stream begins with, if there is one: how many commands that
  // are. 0: none. kMore: there may be one, if the stream goes on as it has begun; only if `more`.
  // What is given next is that stream then, and more of it, if the batch is the same.
  size_t Run(absl::Span<const Command> stream, bool more, uint64_t batch, CommandContext& context);
  // After each other command, of that batch.
  void Note(const Command& command, uint64_t batch);
  void Clear();
  // The session has no memory: gives back what is there for windows alone. False: there was
  // nothing.
  bool GiveBack();

 private:
  static constexpr int64_t kMostCredit = 4096;
  static constexpr int kMaxAttempts = 6;

  // An array that all windows work on, as it was when the plan was made.
  struct Held {
    uint64_t buffer = 0;  // its serial
    ArraySpec spec;
    GraphTemplate::Nodes nodes;
    std::vector<bool> grad_required;  // by node
  };
  struct Known {
    WindowShape shape;
    std::vector<char> kept;  // by result: it is there after a window
    std::unique_ptr<Plan> plan;
    std::shared_ptr<const GraphTemplate> graph;
    std::vector<Held> held;
    int64_t charged = 0;
    int attempts = 0;  // to make a plan
    int misses = 0;    // in a row
    int64_t successes = 0;
  };

  size_t RunWindow(Known* known, absl::Span<const Command> stream, uint64_t batch,
                   CommandContext& context);
  // repeated_windows_plans.cc
  size_t Record(Known* known, absl::Span<const Command> stream, uint64_t batch,
                CommandContext& context);
  absl::Status MakePlan(Known* known, SessionState* state);
  absl::Status NoteHeld(Known* known, SessionState* state);
  // How a plan has run. False: it has not.
  bool RunPlan(Known* known, absl::Span<const Command> stream, uint64_t batch,
               CommandContext& context);
  void Bind(const Known& known, std::vector<Array> results, SessionState* state);
  bool HeldIsThere(const Known& known, SessionState* state) const;

  bool Charge(int64_t bytes);
  void Release(int64_t bytes);
  void ForgetPlan(Known* known);
  void Drop(std::list<Known>::iterator known);
  // Forgets windows that work on an array that is released.
  void Forget(absl::Span<const Handle> released);
  // From what was captured.
  bool Learn();
  void StopCapturing();
  void Wait();

  const bool enabled_;
  MemoryMeter meter_;    // beside the session's limit, which is to be as it would be without this
  int64_t charged_ = 0;  // of it
  WindowSearch search_;
  size_t period_ = 0;               // > 0: three of them are captured
  std::vector<Command> captured_;   // a Barrier stands for each command that is no step
  std::vector<bool> begins_batch_;  // each of captured_
  uint64_t noted_batch_ = 0;        // the last command's
  int64_t captured_bytes_ = 0;      // in the heap
  int64_t captured_charge_ = 0;
  size_t waits_ = 0;  // commands, before it searches again
  int failures_ = 0;
  std::list<Known> known_;                 // the one that has run last first
  absl::flat_hash_map<Handle, int> held_;  // by how many of these
  WindowMatch match_;
  const Known* waiting_ = nullptr;  // whose match has not come to its end
  uint64_t waiting_batch_ = 0;
  int64_t credit_ = kMostCredit;  // commands that may be looked at in vain
  bool busy_ = false;             // what is known stays as it is
  const Known* recorded_ = nullptr;
  Recording* recording_ = nullptr;  // of it; null: it has been given up, or there is none
  std::vector<Variable> late_;      // results of the window that is recorded, by number
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_REPEATED_WINDOWS_H_
