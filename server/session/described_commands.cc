// What commands are called, and what the log says about one that took long.
#include <array>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/session/commands.h"

namespace chx::server {
namespace {

constexpr size_t kMaxDescribed = 8;

template <size_t... i>
constexpr std::array<const char*, sizeof...(i)> KindNames(std::index_sequence<i...> /*kinds*/) {
  return {std::variant_alternative_t<i, CommandVariant>::kName.data()...};  // literals
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

const char* NameOf(const Command& command, const SessionState& state) {
  static constexpr auto kKinds = KindNames(std::make_index_sequence<kNumCommandKinds>());
  const auto* const apply = std::get_if<command::ApplyOp>(&command);
  const OpDef* const op = apply == nullptr ? nullptr : OpOf(*apply, state);
  return op == nullptr ? kKinds[command.index()] : op->name.c_str();
}

SessionOutput::Slow DescribeSlow(const Command& command, int64_t milliseconds,
                                 SessionState* state) {
  SessionOutput::Slow slow;
  slow.op = NameOf(command, *state);
  slow.milliseconds = milliseconds;
  std::visit(
      [&](const auto& c) {
        slow.inputs = InputsOf(c, state);
        const std::string* const location = state->definitions.FindLocation(LocationOf(c));
        if (location != nullptr) slow.location = *location;
      },
      command);
  return slow;
}

}  // namespace chx::server
