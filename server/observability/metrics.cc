#include "server/observability/metrics.h"

#include <utility>

namespace chx::server {

SessionCountersPtr Metrics::Open(SessionLabels labels) {
  auto counters = std::make_unique<SessionCounters>(num_devices_);
  {
    MutexLock lock(&mutex_);
    if (tenants_.size() < kMaxTenants) tenants_.insert(labels.tenant);
    if (!tenants_.contains(labels.tenant)) labels.tenant = "other";
    std::unique_ptr<Totals>& totals = totals_[labels];
    if (totals == nullptr) totals = std::make_unique<Totals>(num_devices_);
    totals->live.insert(counters.get());
  }
  const auto close = [self = shared_from_this(), labels](SessionCounters* ended) {
    self->Close(labels, ended);
    delete ended;
  };
  return SessionCountersPtr(counters.release(), close);
}

void Metrics::Close(const SessionLabels& labels, const SessionCounters* counters) {
  MutexLock lock(&mutex_);
  Totals& totals = *totals_[labels];
  totals.ended.Add(*counters);
  totals.live.erase(counters);
}

std::map<SessionLabels, std::unique_ptr<SessionCounters>> Metrics::Sum() const {
  std::map<SessionLabels, std::unique_ptr<SessionCounters>> sums;
  MutexLock lock(&mutex_);
  for (const auto& [labels, totals] : totals_) {
    auto sum = std::make_unique<SessionCounters>(num_devices_);
    sum->Add(totals->ended);
    for (const SessionCounters* counters : totals->live) sum->Add(*counters);
    sums.emplace(labels, std::move(sum));
  }
  return sums;
}

void Metrics::AddSlow(SlowCommand command) {
  MutexLock lock(&mutex_);
  slow_.push_front(std::move(command));
  if (slow_.size() > kMaxSlowCommands) slow_.pop_back();
}

std::vector<SlowCommand> Metrics::SlowCommands() const {
  MutexLock lock(&mutex_);
  return {slow_.begin(), slow_.end()};
}

}  // namespace chx::server
