#include "client/modes.h"

#include <algorithm>

#include "base/mutex.h"

namespace chx {
namespace {

struct Level {
  ModeState state;
  uint16_t number = 0;
};

std::vector<Level>& Stack() {
  static thread_local std::vector<Level> stack(1);
  return stack;
}

Mutex& StatesMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

std::vector<ModeState>& States() {
  static auto* const states = new std::vector<ModeState>(1);
  return *states;
}

uint16_t Intern(const ModeState& state) {
  MutexLock lock(&StatesMutex());
  std::vector<ModeState>& states = States();
  const auto it = std::find(states.begin(), states.end(), state);
  if (it == states.end()) states.push_back(state);
  return static_cast<uint16_t>(std::find(states.begin(), states.end(), state) - states.begin());
}

}  // namespace

bool ModeState::Records(BackpropId id) const {
  for (const auto& [exception, record] : exceptions) {
    if (exception == id) return record;
  }
  return record_by_default;
}

const ModeState& CurrentMode() { return Stack().back().state; }
uint16_t CurrentModeNumber() { return Stack().back().number; }

ModeState ModeOfNumber(uint16_t number) {
  MutexLock lock(&StatesMutex());
  return States()[number];
}

void PushMode(bool record, absl::Span<const BackpropId> ids) {
  Level level;
  level.state = CurrentMode();
  ModeState& state = level.state;
  if (ids.empty()) {
    state.record_by_default = record;
    state.exceptions.clear();
  }
  for (BackpropId id : ids) {
    auto it = std::lower_bound(state.exceptions.begin(), state.exceptions.end(),
                               std::make_pair(id, false));
    if (it != state.exceptions.end() && it->first == id) it = state.exceptions.erase(it);
    if (record != state.record_by_default) state.exceptions.insert(it, {id, record});
  }
  level.number = Intern(state);
  Stack().push_back(std::move(level));
}

void PopMode() { Stack().pop_back(); }

}  // namespace chx
