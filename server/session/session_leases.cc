// Ends sessions whose lease or time limit has run out: leases, and the watch over commands,
// functions and clients that take too long.
#include <algorithm>
#include <utility>

#include "server/session/session_manager.h"

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

// At the end of its first lease: whether it may have to wait for another client.
bool MayWait(const SessionRecordPtr& record) {
  return !record->owner.name.empty() && !record->waits && record->session->saved() > 0;
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
    for (const auto& [id, record] : sessions_) {
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

std::vector<SessionRecordPtr> SessionManager::LateSessions(
    std::chrono::steady_clock::time_point now, std::chrono::steady_clock::time_point* next) {
  std::vector<SessionRecordPtr> late;
  for (const auto& [id, record] : sessions_) {
    if (record->attachment != 0 && !record->hung_up) continue;
    const auto end = record->detached + LeaseOf(*record);
    if (end <= now) {
      late.push_back(record);
    } else {
      *next = std::min(*next, end);
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
    auto now = std::chrono::steady_clock::now();
    if (now >= look) {
      for (const SessionRecordPtr& record : List()) record->session->EndLatePasses();
      look = now + function_period;
    }
    std::vector<SessionRecordPtr> late;
    std::vector<SessionRecordPtr> left;  // by their clients, with arrays for others
    std::vector<std::shared_ptr<const StreamHooks>> streams;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      now = std::chrono::steady_clock::now();
      auto next = std::min(look, now + watch_period);
      late = LateSessions(now, &next);
      for (const SessionRecordPtr& record : late) {
        if (MayWait(record)) left.push_back(record);
      }
      late.erase(std::remove_if(late.begin(), late.end(), MayWait), late.end());
      streams.reserve(late.size());
      for (const SessionRecordPtr& record : late) streams.push_back(Remove(record));
      if (late.empty()) wake_.wait_until(mutex_, next);
    }
    for (const SessionRecordPtr& record : left) {
      LetWait(record, std::chrono::milliseconds(0));  // if it is busy, at the next look
    }
    for (size_t i = 0; i < late.size(); ++i)
      End(std::move(late[i]), streams[i], "its lease has run out");
  }
}

}  // namespace chx::server
