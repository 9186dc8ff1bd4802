#include "server/session/repeated_windows.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "proto/command_codec.h"
#include "server/session/commands.h"
#include "server/session/recording.h"
#include "server/session/step_commands.h"

namespace chx::server {
namespace {

constexpr size_t kMaxKnown = 4;
constexpr int64_t kMostHeap = 256 << 10;  // of what is captured: lists that are long
constexpr int kMaxMisses = 64;
constexpr int64_t kSuccesses = 16;     // that make up for an attempt, or a failure
constexpr size_t kShortestWait = 256;  // commands
constexpr int kLongestWait = 10;       // as a power of two of it
// A recording looks at all handles: in a session with more there is none.
constexpr size_t kMostHandles = 8192;
// What is there for windows, at most: plans above all.
constexpr int64_t kMostBytes = int64_t{4} << 20;
// What a look in vain takes of the credit, that each command gives 1 of.
constexpr int64_t kPriceOfWork = 4;

bool IsStep(const Command& command) { return RoleOf(command) == WindowRole::kStep; }

bool WritesInPlace(const Command& command) {
  const auto* const apply = std::get_if<command::ApplyOp>(&command);
  return apply != nullptr && apply->results.empty();
}

// Where batches begin, by number in the period: in two of the three that are captured, at least.
std::vector<bool> CutsOf(const std::vector<bool>& begins_batch, size_t period) {
  std::vector<bool> cuts(period);
  for (size_t i = 0; i < period; ++i) {
    const int begun = begins_batch[i] + begins_batch[i + period] + begins_batch[i + 2 * period];
    cuts[i] = begun >= 2;
  }
  return cuts;
}

// The steps from `begin` on, until a command that is none or one that begins a batch: of a window
// no part may be missing.
std::vector<const Command*> StepsFrom(const std::vector<Command>& captured,
                                      const std::vector<bool>& cuts, size_t begin, size_t most) {
  std::vector<const Command*> steps;
  for (size_t i = begin; i < begin + most && IsStep(captured[i]); ++i) {
    if (i > begin && cuts[i % cuts.size()]) break;
    steps.push_back(&captured[i]);
  }
  return steps;
}

// Where a window begins best: so that the longest run of steps is one; else where nothing that a
// step has made is used by a later window; and then where a client's loop is likely to begin.
size_t BestBegin(const std::vector<Command>& captured, const std::vector<bool>& cuts) {
  const size_t period = cuts.size();
  absl::flat_hash_map<Handle, size_t> makers;
  std::vector<int> crossing(period);
  for (size_t i = 0; i < captured.size(); ++i) {
    const auto visit = [&](const auto& c) {
      ForEachUse(c, [&](Handle handle) {
        const auto maker = makers.find(handle);
        if (i < period || i >= 2 * period || maker == makers.end()) return;
        const size_t first = std::max(maker->second + 1, i + 1 - std::min(i + 1, period));
        for (size_t j = first; j <= i; ++j) ++crossing[j % period];
      });
      for (Handle result : ResultsOf(c)) makers[result] = i;
    };
    std::visit(visit, captured[i]);
  }
  size_t best = 0;
  std::tuple<size_t, int, int> best_score;
  for (size_t begin = 0; begin < period; ++begin) {
    const Command& before = captured[(begin + period - 1) % period];
    const size_t steps = StepsFrom(captured, cuts, begin, period).size();
    const bool computes = std::holds_alternative<command::ApplyOp>(captured[begin]) &&
                          !WritesInPlace(captured[begin]);
    const bool after_update =
        WritesInPlace(before) || std::holds_alternative<command::SetGrad>(before);
    const std::tuple<size_t, int, int> score(steps, -crossing[begin],
                                             (computes ? 2 : 0) + (after_update ? 1 : 0));
    if (begin == 0 || score > best_score) {
      best = begin;
      best_score = score;
    }
  }
  return best;
}

// Steps up to the last pass that starts from what other windows have made: of a loop that reads its
// loss before it asks for gradients. No plan can have that pass; what comes behind it may.
size_t StepsOfOthers(absl::Span<const Command* const> steps) {
  absl::flat_hash_set<Handle> made;
  size_t others = 0;
  const auto is_made = [&made](Handle handle) { return made.contains(handle); };
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto visit = [&](const auto& c) {
      using C = std::decay_t<decltype(c)>;
      if constexpr (IsOneOf<C, command::Backward, command::Grad>()) {
        if (!std::all_of(c.outputs.begin(), c.outputs.end(), is_made)) others = i + 1;
      }
      for (Handle result : ResultsOf(c)) made.insert(result);
    };
    std::visit(visit, *steps[i]);
  }
  return others;
}

}  // namespace

RepeatedWindows::RepeatedWindows(bool enabled, MemoryAccountPtr account)
    : enabled_(enabled), meter_(std::move(account), MemoryUse::kFixed) {}

RepeatedWindows::~RepeatedWindows() { Clear(); }

bool RepeatedWindows::Charge(int64_t bytes) {
  if (charged_ + bytes > kMostBytes || !meter_.TryCharge(bytes)) return false;
  charged_ += bytes;
  return true;
}

void RepeatedWindows::Release(int64_t bytes) {
  charged_ -= bytes;
  meter_.Release(bytes);
}

void RepeatedWindows::ForgetPlan(Known* known) {
  known->plan = nullptr;
  known->graph = nullptr;
  known->held.clear();
  Release(std::exchange(known->charged, 0));
}

void RepeatedWindows::Drop(std::list<Known>::iterator known) {
  ForgetPlan(&*known);
  Release(known->shape.Bytes());
  for (Handle handle : known->shape.held()) {
    const auto it = held_.find(handle);
    if (--it->second == 0) held_.erase(it);
  }
  if (known->successes < kSuccesses) Wait();
  if (waiting_ == &*known) waiting_ = nullptr;
  known_.erase(known);
}

void RepeatedWindows::Forget(absl::Span<const Handle> released) {
  for (Handle handle : released) {
    if (held_.empty()) return;
    if (!held_.contains(handle)) continue;
    for (auto known = known_.begin(); known != known_.end();) {
      const auto next = std::next(known);
      const std::vector<Handle>& held = known->shape.held();
      if (std::find(held.begin(), held.end(), handle) != held.end()) Drop(known);
      known = next;
    }
  }
}

void RepeatedWindows::Clear() {
  while (!known_.empty()) Drop(known_.begin());
  StopCapturing();
}

bool RepeatedWindows::GiveBack() {
  if (busy_) return false;
  bool any = period_ > 0;
  StopCapturing();
  for (auto known = known_.begin(); known != known_.end();) {
    const auto next = std::next(known);
    any = any || &*known != recorded_;
    if (&*known != recorded_) Drop(known);
    known = next;
  }
  if (recording_ != nullptr) {
    any = true;
    late_.clear();
    std::exchange(recording_, nullptr)->GiveUp();
  }
  if (any) Wait();
  return any;
}

void RepeatedWindows::StopCapturing() {
  period_ = 0;
  std::vector<Command>().swap(captured_);
  begins_batch_.clear();
  captured_bytes_ = 0;
  Release(std::exchange(captured_charge_, 0));
}

// After what was not to be: longer each time.
void RepeatedWindows::Wait() {
  waits_ = std::max(waits_, kShortestWait << std::min(failures_, kLongestWait));
  ++failures_;
}

void RepeatedWindows::Note(const Command& command, uint64_t batch) {
  if (!enabled_) return;
  if (credit_ < kMostCredit) ++credit_;
  const WindowRole role = RoleOf(command);
  if (const auto* const release = std::get_if<command::Release>(&command)) {
    return Forget(release->handles);
  }
  const bool begins_batch = std::exchange(noted_batch_, batch) != batch;
  if (role == WindowRole::kReset) Clear();
  if (period_ > 0) {
    if (role == WindowRole::kStep) {
      captured_bytes_ += static_cast<int64_t>(HeapBytes(command));
      if (captured_bytes_ > kMostHeap) {
        StopCapturing();
        return Wait();
      }
      captured_.push_back(command);
    } else {
      captured_.emplace_back(command::Barrier());
    }
    begins_batch_.push_back(begins_batch);
    if (captured_.size() < 3 * period_) return;
    if (!Learn()) Wait();
    StopCapturing();
    return;
  }
  if (waits_ > 0) {
    --waits_;
    return;
  }
  period_ = search_.Add(command);
  if (period_ == 0) return;
  const auto bytes = static_cast<int64_t>(3 * period_ * sizeof(Command)) + 2 * kMostHeap;
  if (Charge(bytes)) {
    captured_charge_ = bytes;
    captured_.reserve(3 * period_);
  } else {
    period_ = 0;
    Wait();
  }
}

bool RepeatedWindows::Learn() {
  const std::vector<bool> cuts = CutsOf(begins_batch_, period_);
  const size_t whole = BestBegin(captured_, cuts);
  const size_t others = StepsOfOthers(StepsFrom(captured_, cuts, whole, period_));
  const size_t begin = whole + others;
  const std::vector<const Command*> first = StepsFrom(captured_, cuts, begin, period_ - others);
  const std::vector<const Command*> second =
      StepsFrom(captured_, cuts, begin + period_, period_ - others);
  if (first.size() < WindowSearch::kMinPeriod || first.size() != second.size()) return false;
  absl::optional<WindowShape> shape = WindowShape::Of(first, second);
  if (!shape.has_value() || !Charge(shape->Bytes())) return false;
  if (known_.size() == kMaxKnown) Drop(std::prev(known_.end()));
  for (Handle handle : shape->held()) ++held_[handle];
  Known& known = known_.emplace_front();
  known.kept.resize(shape->num_results());
  known.shape = *std::move(shape);
  return true;
}

size_t RepeatedWindows::Run(absl::Span<const Command> stream, bool more, uint64_t batch,
                            CommandContext& context) {
  const Known* const waiting = std::exchange(waiting_, nullptr);
  if (known_.empty() || !IsStep(stream[0]) || context.state.programs.recording() != nullptr) {
    return 0;
  }
  auto known = known_.begin();
  if (waiting != nullptr && waiting_batch_ == batch && stream.size() >= match_.consumed) {
    while (&*known != waiting) ++known;  // those before it have been tried
  } else {
    match_.Clear();
  }
  while (known != known_.end()) {
    const auto next = std::next(known);
    if (match_.consumed > 0 || (credit_ > 0 && known->shape.MayBegin(stream[0]))) {
      const WindowShape::Found found = known->shape.Match(stream, &match_);
      if (found == WindowShape::Found::kTooShort && more && stream.size() < kMaxPending) {
        waiting_ = &*known;
        waiting_batch_ = batch;
        return kMore;
      }
      size_t done = 0;
      if (found == WindowShape::Found::kYes) {
        busy_ = true;
        done = RunWindow(&*known, stream, batch, context);
        busy_ = false;
      }
      if (done > 0) {
        known->misses = 0;
        credit_ = std::min(credit_ + static_cast<int64_t>(done), kMostCredit);
        known_.splice(known_.begin(), known_, known);
        Forget(match_.others);
        return done;
      }
      credit_ -= kPriceOfWork * match_.work;
      if (found != WindowShape::Found::kTooShort) ++known->misses;
      if (known->misses > kMaxMisses || known->attempts > kMaxAttempts) Drop(known);
      match_.Clear();
    }
    known = next;
  }
  return 0;
}

size_t RepeatedWindows::RunWindow(Known* known, absl::Span<const Command> stream, uint64_t batch,
                                  CommandContext& context) {
  SessionState& state = context.state;
  // Else the release says what is wrong, before the commands behind it.
  const bool valid = std::all_of(match_.others.begin(), match_.others.end(),
                                 [&](Handle handle) { return state.handles.contains(handle); });
  if (!valid) return 0;
  bool keeps_all = true;
  for (size_t i = 0; i < match_.results.size(); ++i) {
    if (match_.results[i] == 0 || match_.released[i] != 0 || known->kept[i] != 0) continue;
    known->kept[i] = 1;
    keeps_all = false;
  }
  if (!keeps_all || (known->plan != nullptr && !HeldIsThere(*known, &state))) ForgetPlan(known);
  if (state.stop.Begin(batch) != StopReason::kNone) return 0;
  std::vector<Handle> made;
  for (Handle result : match_.results) {
    if (result != 0) made.push_back(result);
  }
  if (!state.handles.Reserve(made.size()) || !state.handles.CheckNew(made).ok()) return 0;
  if (known->plan == nullptr) {
    if (state.handles.size() > kMostHandles) known->attempts = kMaxAttempts;
    if (++known->attempts > kMaxAttempts) return 0;
    return Record(known, stream, batch, context);
  }
  if (!RunPlan(known, stream, batch, context)) return 0;
  state.counters.repeated_windows.Add();
  if (++known->successes % kSuccesses == 0) {
    known->attempts = std::max(known->attempts - 1, 1);
    failures_ = std::max(failures_ - 1, 0);
  }
  if (period_ > 0) {  // what is captured has a gap
    StopCapturing();
    Wait();
  }
  size_t begin = 0;
  for (size_t end : match_.others_ends) {
    const auto others = absl::MakeConstSpan(match_.others).subspan(begin, end - begin);
    begin = end;
    if (others.empty()) continue;
    RunCommand(command::Release{{others.begin(), others.end()}}, context);
  }
  return match_.consumed;
}

}  // namespace chx::server
