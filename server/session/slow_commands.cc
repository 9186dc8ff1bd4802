// What the log says about a command that took long.
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

constexpr size_t kMaxDescribed = 8;

// Of commands that may take long; the others move a few records.
template <typename C>
std::string NameOfCommand(const C& c, const SessionState& state) {
  using namespace command;  // NOLINT: in this function only
  if constexpr (std::is_same_v<C, ApplyOp>) {
    const OpDef* const op = OpOf(c, state);
    return op == nullptr ? "unknown" : op->name;
  }
  if (std::is_same_v<C, Upload> || std::is_same_v<C, UploadFrom>) return "upload";
  if (std::is_same_v<C, Fetch> || std::is_same_v<C, FetchInto>) return "fetch";
  if (std::is_same_v<C, Barrier>) return "barrier";
  if (std::is_same_v<C, Backward> || std::is_same_v<C, ResumePass>) return "backward";
  if (std::is_same_v<C, Grad>) return "grad";
  if (std::is_same_v<C, Release>) return "release";
  if (std::is_same_v<C, ShareArray> || std::is_same_v<C, ShareCopy>) return "share";
  return "command";
}

// As far as they still have something.
class Specs {
 public:
  explicit Specs(SessionState* state) : state_(*state) {}

  void Add(Handle handle) {
    const HandleTable::Entry* const entry = state_.handles.Find(handle);
    if (entry == nullptr) return AddText("released");
    AddText(entry->error != nullptr ? "error" : entry->variable.array.spec.ToString());
  }
  void Add(const HandleOperand& operand) {
    if (operand.is_array()) return Add(operand.array());
    AddText(operand.is_scalar() ? "scalar" : "None");
  }
  template <typename Operands>
  void AddAll(const Operands& operands) {
    for (const auto& operand : operands) Add(operand);
  }
  std::string Finish() {
    if (count_ > kMaxDescribed) absl::StrAppend(&text_, ", ... (", count_, ")");
    return std::move(text_);
  }

 private:
  void AddText(absl::string_view text) {
    if (++count_ <= kMaxDescribed) absl::StrAppend(&text_, text_.empty() ? "" : ", ", text);
  }

  SessionState& state_;
  size_t count_ = 0;
  std::string text_;
};

template <typename C>
std::string InputsOf(const C& c, SessionState* state) {
  using namespace command;  // NOLINT: in this function only
  Specs specs(state);
  if constexpr (std::is_same_v<C, ApplyOp>) specs.AddAll(c.inputs);
  if constexpr (std::is_same_v<C, Backward> || std::is_same_v<C, Grad>) specs.AddAll(c.outputs);
  if constexpr (std::is_same_v<C, Fetch> || std::is_same_v<C, FetchInto>) specs.Add(c.handle);
  return specs.Finish();
}

}  // namespace

SessionOutput::Slow DescribeSlow(const Command& command, int64_t milliseconds,
                                 SessionState* state) {
  SessionOutput::Slow slow;
  slow.milliseconds = milliseconds;
  std::visit(
      [&](const auto& c) {
        slow.op = NameOfCommand(c, *state);
        slow.inputs = InputsOf(c, state);
        const std::string* const location = state->definitions.FindLocation(LocationOf(c));
        if (location != nullptr) slow.location = *location;
      },
      command);
  return slow;
}

}  // namespace chx::server
