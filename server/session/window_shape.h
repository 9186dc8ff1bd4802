// A window of commands that a client sends again and again: what stays the same, and what does not.
#ifndef CHX_SERVER_SESSION_WINDOW_SHAPE_H_
#define CHX_SERVER_SESSION_WINDOW_SHAPE_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "proto/command.h"
#include "server/programs/trace.h"

namespace chx::server {

// What a command is to windows.
enum class WindowRole {
  kStep,     // may be part of one
  kRelease,  // may be anywhere in one
  kBreak,    // no part of one
  kReset,    // changes what all commands use: windows from before it are none
};
WindowRole RoleOf(const Command& command);

// One window of a stream, as a shape has found it there.
struct WindowMatch {
  // Takes the memory of the one before.
  void Clear();
  // The number of a result; results.size(): it is none.
  size_t NumberOf(Handle result);
  bool IsOther(Handle handle) const;

  size_t consumed = 0;              // commands, with releases
  int64_t work = 0;                 // what it took to find it, in commands
  std::vector<size_t> positions;    // of the steps among them
  std::vector<Handle> results;      // by number
  std::vector<char> released;       // by number: the window itself releases the result
  std::vector<Handle> arguments;    // by number
  std::vector<int64_t> values;      // of the slots
  std::vector<Handle> others;       // that are released and no results
  std::vector<size_t> others_ends;  // by release command: where its handles among them end

 private:
  friend class WindowShape;

  void AddOther(Handle handle);

  // Where they are many.
  absl::flat_hash_map<Handle, size_t> numbers_;  // of the first results
  size_t numbered_ = 0;                          // how many these are
  absl::flat_hash_set<Handle> others_;
};

// Operators, attributes, modes and dataflow. Handles are renamed: an operand is the result of a
// step of the window, or the same array in each window (held), or another one in each (an
// argument).
class WindowShape {
 public:
  // `first` and `second`: the steps of two windows, one after the other. None: they differ.
  static absl::optional<WindowShape> Of(absl::Span<const Command* const> first,
                                        absl::Span<const Command* const> second);

  enum class Found { kNo, kYes, kTooShort };
  // Whether the stream begins with such a window. kTooShort: it may, if more comes. Goes on where
  // the match ends, if that is of the stream's first commands.
  Found Match(absl::Span<const Command> stream, WindowMatch* match) const;
  // Whether the stream's first command is that of such a window, but for its handles' values.
  bool MayBegin(const Command& command) const {
    const auto* const apply = std::get_if<command::ApplyOp>(&command);
    const auto* const first = std::get_if<command::ApplyOp>(&steps_[0].command);
    // Nearly always this is enough.
    if (apply != nullptr && first != nullptr && apply->op != first->op) return false;
    return BeginsWith(command);
  }

  size_t num_steps() const { return steps_.size(); }
  size_t num_results() const { return num_results_; }
  const std::vector<Handle>& held() const { return held_; }
  const std::vector<TraceSlot>& slots() const { return slots_; }
  // What it takes, about.
  int64_t Bytes() const;

 private:
  bool BeginsWith(const Command& command) const;

  struct Use {
    enum Kind : uint8_t { kResult, kHeld, kArgument } kind = kHeld;
    size_t number = 0;  // of the result or argument
    Handle held = 0;
  };
  struct Step {
    Command command;
    absl::InlinedVector<Use, 4> uses;        // in the order of ForEachUse
    absl::InlinedVector<size_t, 1> varying;  // attributes
  };

  // How a step of the stream fills in what a match knows so far.
  bool MatchStep(const Step& step, const Command& command, WindowMatch* match) const;

  std::vector<Step> steps_;
  std::vector<Handle> held_;
  std::vector<TraceSlot> slots_;
  size_t num_results_ = 0;
  size_t num_arguments_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_WINDOW_SHAPE_H_
