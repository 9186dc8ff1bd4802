#include "server/runs/run.h"

#include <algorithm>
#include <array>

#include "absl/time/clock.h"

namespace chx::server {

Run::Run(RunSpec spec, MemoryAccountPtr account, int64_t steps_per_epoch)
    : spec_(std::move(spec)),
      steps_per_epoch_(steps_per_epoch),
      meter_(std::move(account)),
      step_(spec_.done) {
  position_.step = spec_.done;
}

Run::Run(RunRecord record, MemoryAccountPtr account)
    : spec_(std::move(record.spec)),
      steps_per_epoch_(record.steps_per_epoch),
      position_(std::move(record.position)),
      meter_(std::move(account)),
      state_(record.view.state == RunState::kSuspended ? RunState::kRunning : record.view.state),
      suspended_(record.view.state != RunState::kEnded),
      order_(record.order),
      step_(record.view.step),
      next_(record.view.next),
      dropped_(record.view.dropped) {
  for (RunEvent& event : record.view.events) {
    if (!meter_.TryCharge(BytesOf(event))) {
      ++dropped_;
      continue;
    }
    events_.push_back(std::move(event));
  }
}

double Run::seconds() const {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - began_;
  return position_.seconds + since.count();
}

RunRecord Run::Record() {
  RunRecord record;
  record.spec = spec_;
  record.steps_per_epoch = steps_per_epoch_;
  record.position = position_;
  record.position.seconds = seconds();
  MutexLock lock(&mutex_);
  record.order = order_;
  record.view.state = state_;
  const size_t most = state_ == RunState::kEnded ? kMaxRecorded : kMaxEvents;
  record.view.step = step_;
  record.view.next = next_;
  record.view.dropped = dropped_;
  for (size_t i = 0; i < events_.size(); ++i) {
    if (i == 0 || i + most > events_.size()) {
      record.view.events.push_back(events_[i]);
    } else {
      ++record.view.dropped;
    }
  }
  return record;
}

int64_t Run::BytesOf(const RunEvent& event) {
  return static_cast<int64_t>(sizeof(RunEvent) + 3 * kAllocationBytes +
                              event.values.size() * sizeof(double) + event.reason.size() +
                              event.text.size());
}

RunView Run::Watch(uint64_t from, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  while (next_ <= from && state_ != RunState::kEnded && std::chrono::steady_clock::now() < end) {
    changed_.wait_until(mutex_, end);
  }
  RunView view;
  view.state = state();
  view.step = step_;
  view.next = next_;
  view.dropped = dropped_;
  auto it = std::lower_bound(
      events_.begin(), events_.end(), from,
      [](const RunEvent& event, uint64_t number) { return event.number < number; });
  for (; it != events_.end() && view.events.size() < kMaxViewed; ++it) view.events.push_back(*it);
  return view;
}

RunView Run::Sample(size_t of_each_kind) {
  constexpr size_t kKinds = static_cast<size_t>(RunEventKind::kEnded) + 1;
  MutexLock lock(&mutex_);
  RunView view;
  view.state = state();
  view.step = step_;
  view.next = next_;
  view.dropped = dropped_;
  std::array<size_t, kKinds> left = {};
  for (const RunEvent& event : events_) ++left[static_cast<size_t>(event.kind)];
  std::array<size_t, kKinds> stride = {};
  for (size_t i = 0; i < kKinds; ++i) stride[i] = (left[i] + of_each_kind - 1) / of_each_kind;
  for (const RunEvent& event : events_) {
    const auto kind = static_cast<size_t>(event.kind);
    if (--left[kind] % stride[kind] == 0 || view.events.empty()) view.events.push_back(event);
  }
  return view;
}

void Run::Ask(RunOrder order) {
  MutexLock lock(&mutex_);
  if (order_ < RunOrder::kStop) order_ = order;
  changed_.notify_all();
}

void Run::Suspend() {
  MutexLock lock(&mutex_);
  suspended_ = true;
  changed_.notify_all();
}

RunOrder Run::order() {
  MutexLock lock(&mutex_);
  return order_;
}

bool Run::suspended() {
  MutexLock lock(&mutex_);
  return suspended_;
}

void Run::Continue() {
  MutexLock lock(&mutex_);
  suspended_ = false;
}

bool Run::paused() {
  MutexLock lock(&mutex_);
  return state_ == RunState::kPaused;
}

void Run::AwaitOrder(RunOrder but, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  MutexLock lock(&mutex_);
  while (order_ == but && !suspended_ && std::chrono::steady_clock::now() < end) {
    changed_.wait_until(mutex_, end);
  }
}

void Run::ShowStep() {
  MutexLock lock(&mutex_);
  step_ = position_.step;
}

bool Run::Thin() {
  // The first says when it started; the newest quarter stays as it is.
  const size_t end = events_.size() - events_.size() / 4;
  if (end < 4) return false;
  size_t kept = 1;
  for (size_t i = 1; i < events_.size(); ++i) {
    if (i < end && i % 2 == 0) {
      meter_.Release(BytesOf(events_[i]));
      ++dropped_;
    } else if (kept == i) {
      ++kept;
    } else {
      events_[kept++] = std::move(events_[i]);
    }
  }
  events_.resize(kept);
  return true;
}

void Run::Note(RunEventKind kind, std::vector<double> values, absl::string_view reason,
               absl::string_view text) {
  RunEvent event;
  event.kind = kind;
  event.unix_time = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  event.values = std::move(values);
  event.reason = std::string(reason);
  event.text = std::string(text);
  MutexLock lock(&mutex_);
  if (kind == RunEventKind::kEnded) state_ = RunState::kEnded;
  if (kind == RunEventKind::kPaused) state_ = RunState::kPaused;
  if (kind == RunEventKind::kResumed) state_ = RunState::kRunning;
  event.number = next_++;
  event.step = step_;
  const int64_t bytes = BytesOf(event);
  if (events_.size() >= kMaxEvents) Thin();
  if (!meter_.Reserve(bytes) && !Thin() && kind == RunEventKind::kLog) {
    ++dropped_;
  } else {
    meter_.Charge(bytes);
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
}

}  // namespace chx::server
