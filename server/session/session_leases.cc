// Ends sessions whose lease or time limit has run out: leases, and the watch over commands,
// functions and clients that take too long. Frees what was shared until a time that is over.
#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "server/session/session_manager.h"
#include "server/sharing/shared_store.h"

namespace chx::server {
namespace {

constexpr std::chrono::milliseconds kMaxSleep = std::chrono::hours(1);

// How often to look for what may take `limit` at most; 0: it may take for ever.
std::chrono::milliseconds PeriodFor(std::chrono::milliseconds limit, int parts,
                                    std::chrono::milliseconds longest) {
  if (limit.count() == 0) return longest;
  return std::clamp<std::chrono::milliseconds>(limit / parts, std::chrono::milliseconds(10),
                                               longest);
}

struct Ending {
  std::chrono::steady_clock::time_point time;
  absl::string_view reason;
};

// Whether it goes on with a run that its client has left.
bool RunsForNobody(const SessionRecord& record) {
  return record.waits && record.session->runs().active.load(std::memory_order_relaxed) > 0;
}

// Whether it has done anything since the last look.
void SeeWhetherActive(std::chrono::steady_clock::time_point now, SessionRecord* record) {
  // Nobody's lease runs while it does what it was left for.
  if (RunsForNobody(*record)) record->detached = now;
  const int64_t commands = record->session->stats().commands;
  const bool active = commands != record->seen_commands || record->session->stop().running() ||
                      record->transfers.any();
  record->seen_commands = commands;
  if (active) record->active = now;
}

// When a session ends by itself, if nothing happens until then, and why.
Ending EndOf(const SessionRecord& record, std::chrono::milliseconds lease,
             std::chrono::steady_clock::time_point now) {
  Ending ending = {now + kMaxSleep, ""};
  const auto at_most = [&ending](std::chrono::steady_clock::time_point end,
                                 absl::string_view reason) {
    if (end < ending.time) ending = {end, reason};
  };
  const Tenant& tenant = *record.owner.tenant;
  if ((record.attachment == 0 || record.hung_up) && !RunsForNobody(record)) {
    at_most(record.detached + lease, kLeaseEnded);
  }
  // One that waits for its next client has its lease for that.
  if (tenant.idle_limit.count() > 0 && !record.waits) {
    at_most(record.active + tenant.idle_limit, kIdleEnded);
  }
  if (tenant.session_limit.count() > 0) {
    at_most(record.opened + tenant.session_limit, kAgeEnded);
  }
  return ending;
}

// At the end of its first lease: whether it may have to wait for another client.
bool MayWait(const SessionRecord& record) {
  return !record.owner.name.empty() && !record.waits && record.session->has_kept();
}

}  // namespace

void SessionManager::WatchSessions() {
  struct Busy {
    SessionRecordPtr record;
    uint64_t attachment;
    std::shared_ptr<const StreamHooks> stream;
  };
  std::vector<Busy> busy;
  {
    MutexLock lock(&mutex_);
    const auto now = std::chrono::steady_clock::now();
    for (const auto& [id, record] : sessions_) {
      SeeWhetherActive(now, record.get());
      if (record->session->stop().running()) {
        busy.push_back({record, record->attachment, record->stream});
      }
    }
  }
  const auto now = std::chrono::steady_clock::now();
  for (const Busy& session : busy) {
    session.record->session->stop().Watch(now);
    if (session.stream == nullptr || !session.stream->hung_up || !session.stream->hung_up()) {
      continue;
    }
    MutexLock lock(&mutex_);
    SessionRecord& record = *session.record;
    if (record.attachment != session.attachment || record.hung_up) continue;
    record.hung_up = true;
    record.detached = now;
  }
  WakeStopped();  // past deadlines
}

void SessionManager::EndExpiredShares() {
  if (options_.sharing == nullptr) return;
  std::shared_ptr<void> expired = options_.sharing->capabilities().TakeExpired(absl::Now());
  if (expired != nullptr) disposer_.Destroy(std::move(expired));
}

std::vector<SessionManager::Late> SessionManager::LateSessions(
    std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point* next) {
  std::vector<Late> late;
  for (const auto& [id, record] : sessions_) {
    const Ending ending = EndOf(*record, LeaseOf(*record), now);
    if (ending.time <= now) {
      late.push_back({record, ending.reason});
    } else {
      *next = std::min(*next, ending.time);
    }
  }
  return late;
}

// Sleeps until the next lease ends, and ends the sessions whose lease has ended. Deadlines of
// functions are looked after every quarter of their length, commands every tenth of what they may
// take.
void SessionManager::ReapLoop() {
  const auto function_period = PeriodFor(options_.session.function_deadline, 4, kMaxSleep);
  const auto watch_period =
      std::min(PeriodFor(options_.session.max_command_time, 10, std::chrono::milliseconds(500)),
               PeriodFor(options_.lease, 8, std::chrono::milliseconds(500)));
  auto look = std::chrono::steady_clock::now() + function_period;
  for (;;) {
    WatchSessions();
    EndExpiredShares();
    auto now = std::chrono::steady_clock::now();
    if (now >= look) {
      for (const SessionRecordPtr& record : List()) record->session->EndLatePasses();
      look = now + function_period;
    }
    std::vector<Late> late;
    std::vector<SessionRecordPtr> left;  // by their clients, with arrays for others
    std::vector<std::shared_ptr<const StreamHooks>> streams;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      now = std::chrono::steady_clock::now();
      auto next = std::min(look, now + watch_period);
      late = LateSessions(now, &next);
      const auto waits = [](const Late& each) {
        return each.reason == kLeaseEnded && MayWait(*each.record);
      };
      for (const Late& each : late) {
        if (waits(each)) left.push_back(each.record);
      }
      late.erase(std::remove_if(late.begin(), late.end(), waits), late.end());
      streams.reserve(late.size());
      for (const Late& each : late) {
        streams.push_back(Remove(each.record, WhyEnded(each.reason)));
      }
      if (late.empty()) wake_.wait_until(mutex_, next);
    }
    for (const SessionRecordPtr& record : left) {
      LetWait(record, std::chrono::milliseconds(0));  // if it is busy, at the next look
    }
    for (size_t i = 0; i < late.size(); ++i) {
      End(std::move(late[i].record), streams[i], late[i].reason);
    }
  }
}

}  // namespace chx::server
