#include "client/modes.h"

#include <algorithm>
#include <deque>

#include "base/mutex.h"
#include "client/graph_mirror.h"
#include "client/session.h"

namespace chx {
namespace {

// A daemon keeps some thousands of states. Backprop ids never come again, so that a program which
// opens a scope and a mode in each iteration would have no end of them.
constexpr size_t kKeptStates = 256;

struct Level {
  ModeState state;
  ModeNumber number;
};

struct Numbered {
  ModeState state;
  uint32_t version = 1;
  int users = 0;  // levels of all threads
};

std::vector<Level>& Stack() {
  static thread_local std::vector<Level> stack(1);
  return stack;
}

Mutex& StatesMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// By number.
std::deque<Numbered>& States() {
  static auto* const states = new std::deque<Numbered>(1);
  return *states;
}

ModeNumber Acquire(const ModeState& state) {
  MutexLock lock(&StatesMutex());
  std::deque<Numbered>& states = States();
  auto it = std::find_if(states.begin(), states.end(),
                         [&](const Numbered& n) { return n.state == state; });
  if (it == states.end() && states.size() >= kKeptStates) {
    it = std::find_if(states.begin() + 1, states.end(),
                      [](const Numbered& n) { return n.users == 0; });
    if (it != states.end()) {
      it->state = state;
      ++it->version;
    }
  }
  if (it == states.end()) {
    states.push_back({state});
    it = states.end() - 1;
  }
  ++it->users;
  return {static_cast<uint16_t>(it - states.begin()), it->version};
}

void Release(ModeNumber number) {
  MutexLock lock(&StatesMutex());
  --States()[number.number].users;
}

}  // namespace

bool ModeState::RecordsByDefault(const Session* session) const {
  for (const auto& [exception, record] : sessions) {
    if (exception == session) return record;
  }
  return record_by_default;
}

bool ModeState::Records(const Session* session, BackpropId id) const {
  for (const auto& [exception, record] : exceptions) {
    if (exception == id) return record;
  }
  return RecordsByDefault(session);
}

const ModeState& CurrentMode() { return Stack().back().state; }
ModeNumber CurrentModeNumber() { return Stack().back().number; }

namespace {

void Push(const ModeState& state) {
  Level level;
  level.state = state;
  level.number = Acquire(level.state);
  Stack().push_back(std::move(level));
}

}  // namespace

void PushMode(bool record) {
  ModeState state;
  state.record_by_default = record;
  Push(state);
}

void PushMode(bool record, const Session& session) {
  ModeState state = CurrentMode();
  const auto is_here = [&](const auto& exception) {
    return exception.first == 0 || session.graphs().backprop_ids().IsOpen(exception.first);
  };
  auto& ids = state.exceptions;
  ids.erase(std::remove_if(ids.begin(), ids.end(), is_here), ids.end());
  auto& sessions = state.sessions;
  const auto is_this = [&](const auto& exception) { return exception.first == &session; };
  sessions.erase(std::remove_if(sessions.begin(), sessions.end(), is_this), sessions.end());
  if (record != state.record_by_default) {
    sessions.emplace_back(&session, record);
    std::sort(sessions.begin(), sessions.end());
  }
  Push(state);
}

void PushMode(bool record, absl::Span<const BackpropId> ids) {
  ModeState state = CurrentMode();
  for (BackpropId id : ids) {
    auto it = std::lower_bound(state.exceptions.begin(), state.exceptions.end(),
                               std::make_pair(id, false));
    if (it != state.exceptions.end() && it->first == id) it = state.exceptions.erase(it);
    // Without sessions that differ, what is so anyway is no exception.
    if (!state.sessions.empty() || record != state.record_by_default) {
      state.exceptions.insert(it, {id, record});
    }
  }
  Push(state);
}

void PopMode() {
  Release(Stack().back().number);
  Stack().pop_back();
}

}  // namespace chx
