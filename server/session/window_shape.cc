#include "server/session/window_shape.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proto/command_codec.h"
#include "server/session/command_traits.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

// Handles of other windows that are released in one.
constexpr size_t kMaxOthers = 1024;
// Handles from which on a list is looked up in a table.
constexpr size_t kMany = 16;
// Handles that take as long as a command.
constexpr size_t kHandlesOfWork = 4;

int64_t BitsOf(double number) {
  int64_t bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  return bits;
}

// As SetSlot takes it.
int64_t BitsOf(const Scalar& scalar) {
  return scalar.is_float() ? BitsOf(scalar.AsDouble()) : scalar.AsInt();
}

bool Same(const Scalar& a, const Scalar& b) {
  return a.kind() == b.kind() && BitsOf(a) == BitsOf(b);
}

bool Same(const AttrValue& a, const AttrValue& b) {
  return a.type() == b.type() && Same(a.AsScalar(), b.AsScalar()) && a.ints() == b.ints();
}

// Whether a plan can be given another value.
bool MayVary(const AttrValue& a, const AttrValue& b) {
  if (a.type() != b.type()) return false;
  const bool number = a.type() == AttrType::kInt || a.type() == AttrType::kFloat ||
                      (a.type() == AttrType::kScalar && a.AsScalar().is_float());
  return number && a.AsScalar().kind() == b.AsScalar().kind();
}

bool Same(const HandleOperand& a, const HandleOperand& b) {
  if (a.is_array() || a.absent()) return a.is_array() == b.is_array() && a.absent() == b.absent();
  return b.is_scalar() && Same(a.scalar(), b.scalar());
}

// Handles are there in the same places.
bool SamePlaces(const Handles& a, const Handles& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](Handle x, Handle y) { return (x == 0) == (y == 0); });
}

// But for handles, and attributes.
bool Same(const command::ApplyOp& a, const command::ApplyOp& b) {
  return a.op == b.op && a.device == b.device && a.mode == b.mode &&
         a.attrs.size() == b.attrs.size() && SamePlaces(a.results, b.results) &&
         std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(), b.inputs.end(),
                    [](const HandleOperand& x, const HandleOperand& y) { return Same(x, y); });
}

template <typename Pass>
bool SamePass(const Pass& a, const Pass& b) {
  return a.backprop_id == b.backprop_id && a.mode == b.mode &&
         a.enable_double_backprop == b.enable_double_backprop &&
         BitsOf(a.loss_scale) == BitsOf(b.loss_scale) && SamePlaces(a.outputs, b.outputs);
}
bool Same(const command::Backward& a, const command::Backward& b) { return SamePass(a, b); }
bool Same(const command::Grad& a, const command::Grad& b) {
  return SamePass(a, b) && a.retain_grad == b.retain_grad && SamePlaces(a.inputs, b.inputs) &&
         SamePlaces(a.output_grads, b.output_grads) && SamePlaces(a.results, b.results);
}
bool Same(const command::SetGrad& a, const command::SetGrad& b) {
  return a.backprop_id == b.backprop_id && (a.grad == 0) == (b.grad == 0);
}
bool Same(const command::GetGrad& a, const command::GetGrad& b) {
  return a.backprop_id == b.backprop_id && (a.result == 0) == (b.result == 0);
}
template <typename C>
bool Same(const C& /*a*/, const C& /*b*/) {
  return false;
}

bool SameKind(const Command& a, const Command& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&b](const auto& c) { return Same(c, std::get<std::decay_t<decltype(c)>>(b)); },
                    a);
}

template <typename Fn>
void ForEachHandle(const Command& command, Fn fn) {
  std::visit([&fn](const auto& c) { ForEachUse(c, fn); }, command);
}

absl::Span<const Handle> ResultsOfAny(const Command& command) {
  return std::visit([](const auto& c) { return ResultsOf(c); }, command);
}

template <typename C>
constexpr WindowRole RoleOfKind() {
  if constexpr (std::is_same_v<C, command::Release>) {
    return WindowRole::kRelease;
  } else if constexpr (IsOneOf<C, command::ApplyOp, command::SetGrad, command::GetGrad,
                               command::Backward, command::Grad>()) {
    return WindowRole::kStep;
  } else if constexpr (IsOneOf<C, command::Fetch, command::FetchInto, command::Barrier,
                               command::Upload, command::UploadFrom, command::UploadPart,
                               command::ShareArray, command::ShareCopy, command::ShareNew,
                               command::ShareAlias, command::SaveArrays, command::QuerySaved,
                               command::DefineLocation, command::QueryGraphs, command::DumpGraph,
                               command::NoteGenerator, command::RequireGrad,
                               command::RunProgram>()) {
    return WindowRole::kBreak;
  } else {
    return WindowRole::kReset;
  }
}

template <size_t... i>
constexpr std::array<WindowRole, sizeof...(i)> RolesOf(std::index_sequence<i...> /*kinds*/) {
  return {RoleOfKind<std::variant_alternative_t<i, CommandVariant>>()...};
}

}  // namespace

WindowRole RoleOf(const Command& command) {
  static constexpr auto kRoles = RolesOf(std::make_index_sequence<kNumCommandKinds>());
  // One that may call functions of the client ends elsewhere.
  if (const auto* const backward = std::get_if<command::Backward>(&command)) {
    if (backward->request_id != 0) return WindowRole::kBreak;
  } else if (const auto* const grad = std::get_if<command::Grad>(&command)) {
    if (grad->request_id != 0) return WindowRole::kBreak;
  }
  return kRoles[command.index()];
}

void WindowMatch::Clear() {
  consumed = 0;
  work = 0;
  positions.clear();
  results.clear();
  released.clear();
  arguments.clear();
  values.clear();
  others.clear();
  others_ends.clear();
  numbers_.clear();
  numbered_ = 0;
  others_.clear();
}

size_t WindowMatch::NumberOf(Handle result) {
  if (results.size() <= kMany) {
    return static_cast<size_t>(std::find(results.begin(), results.end(), result) - results.begin());
  }
  for (; numbered_ < results.size(); ++numbered_) numbers_.emplace(results[numbered_], numbered_);
  const auto it = numbers_.find(result);
  return it == numbers_.end() ? results.size() : it->second;
}

bool WindowMatch::IsOther(Handle handle) const {
  if (others.size() <= kMany) {
    return std::find(others.begin(), others.end(), handle) != others.end();
  }
  return others_.contains(handle);
}

void WindowMatch::AddOther(Handle handle) {
  others.push_back(handle);
  if (others.size() == kMany + 1) others_.insert(others.begin(), others.end());
  if (others.size() > kMany + 1) others_.insert(handle);
}

absl::optional<WindowShape> WindowShape::Of(absl::Span<const Command* const> first,
                                            absl::Span<const Command* const> second) {
  WindowShape shape;
  absl::flat_hash_map<Handle, size_t> results;    // of the first window
  absl::flat_hash_map<Handle, size_t> arguments;  // by number
  absl::flat_hash_set<Handle> held;
  int64_t operation = -1;
  for (size_t i = 0; i < first.size(); ++i) {
    if (!SameKind(*first[i], *second[i])) return absl::nullopt;
    shape.steps_.push_back({*first[i], {}, {}});
    Step& step = shape.steps_.back();
    if (const auto* apply = std::get_if<command::ApplyOp>(first[i])) {
      const auto& other = std::get<command::ApplyOp>(*second[i]);
      ++operation;
      for (size_t j = 0; j < apply->attrs.size(); ++j) {
        if (Same(apply->attrs[j], other.attrs[j])) continue;
        if (!MayVary(apply->attrs[j], other.attrs[j])) return absl::nullopt;
        step.varying.push_back(j);
        shape.slots_.push_back({operation, j});
      }
    }
    absl::InlinedVector<Handle, 8> others;
    ForEachHandle(*second[i], [&others](Handle handle) { others.push_back(handle); });
    ForEachHandle(*first[i], [&](Handle handle) {
      Use use;
      const auto made = results.find(handle);
      if (made != results.end()) {
        use.kind = Use::kResult;
        use.number = made->second;
      } else if (others[step.uses.size()] == handle) {
        use.held = handle;
        if (held.insert(handle).second) shape.held_.push_back(handle);
      } else {
        use.kind = Use::kArgument;
        use.number = arguments.emplace(handle, arguments.size()).first->second;
      }
      step.uses.push_back(use);
    });
    for (Handle result : ResultsOfAny(*first[i])) {
      const size_t number = shape.num_results_++;
      if (result != 0 && !results.emplace(result, number).second) return absl::nullopt;
    }
  }
  shape.num_arguments_ = arguments.size();
  WindowMatch match;
  for (size_t i = 0; i < second.size(); ++i) {
    if (!shape.MatchStep(shape.steps_[i], *second[i], &match)) return absl::nullopt;
  }
  return shape;
}

bool WindowShape::BeginsWith(const Command& command) const {
  return SameKind(steps_[0].command, command);
}

bool WindowShape::MatchStep(const Step& step, const Command& command, WindowMatch* match) const {
  if (!SameKind(step.command, command)) return false;
  if (const auto* apply = std::get_if<command::ApplyOp>(&command)) {
    const Attrs& attrs = std::get<command::ApplyOp>(step.command).attrs;
    size_t varying = 0;
    for (size_t i = 0; i < attrs.size(); ++i) {
      if (varying < step.varying.size() && step.varying[varying] == i) {
        ++varying;
        if (!MayVary(attrs[i], apply->attrs[i])) return false;
        match->values.push_back(BitsOf(apply->attrs[i].AsScalar()));
      } else if (!Same(attrs[i], apply->attrs[i])) {
        return false;
      }
    }
  }
  size_t next = 0;
  bool matches = true;
  ForEachHandle(command, [&](Handle handle) {
    const Use& use = step.uses[next++];
    if (use.kind == Use::kResult) {
      matches = matches && handle == match->results[use.number] && !match->released[use.number];
      return;
    }
    if (!match->others.empty() && match->IsOther(handle)) matches = false;
    if (use.kind == Use::kHeld) {
      matches = matches && handle == use.held;
    } else if (use.number == match->arguments.size()) {
      match->arguments.push_back(handle);
    } else {
      matches = matches && handle == match->arguments[use.number];
    }
  });
  if (!matches) return false;
  for (Handle result : ResultsOfAny(command)) {
    if (!match->others.empty() && match->IsOther(result)) return false;
    match->results.push_back(result);
    match->released.push_back(0);
  }
  return true;
}

WindowShape::Found WindowShape::Match(absl::Span<const Command> stream, WindowMatch* match) const {
  for (const Command& command : stream.subspan(match->consumed)) {
    ++match->work;
    if (const auto* release = std::get_if<command::Release>(&command)) {
      match->work += static_cast<int64_t>(release->handles.size() / kHandlesOfWork);
      for (Handle handle : release->handles) {
        if (handle == 0) return Found::kNo;
        const size_t number = match->NumberOf(handle);
        if (number == match->results.size()) {
          if (match->others.size() == kMaxOthers || match->IsOther(handle)) return Found::kNo;
          match->AddOther(handle);
        } else if (std::exchange(match->released[number], 1) != 0) {
          return Found::kNo;  // the command itself says so
        }
      }
      match->others_ends.push_back(match->others.size());
    } else {
      const size_t step = match->positions.size();
      if (step == steps_.size()) return Found::kYes;
      if (!MatchStep(steps_[step], command, match)) return Found::kNo;
      const size_t handles = steps_[step].uses.size() + ResultsOfAny(command).size();
      match->work += static_cast<int64_t>(handles / kHandlesOfWork);
      match->positions.push_back(match->consumed);
    }
    ++match->consumed;
  }
  return match->positions.size() == steps_.size() ? Found::kYes : Found::kTooShort;
}

int64_t WindowShape::Bytes() const {
  auto bytes = static_cast<int64_t>(sizeof(*this) + held_.size() * sizeof(Handle));
  for (const Step& step : steps_) {
    bytes += static_cast<int64_t>(sizeof(step) + step.uses.size() * sizeof(Use));
    bytes += static_cast<int64_t>(HeapBytes(step.command));
  }
  return bytes;
}

}  // namespace chx::server
