// How a Connection takes its session up after a cut, and finds out that there was one.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "ops/error.h"
#include "proto/messages.h"

namespace chx {
namespace {

constexpr std::chrono::seconds kTryTimeout(5);
constexpr std::chrono::milliseconds kFirstDelay(10);
constexpr std::chrono::milliseconds kLastDelay(1000);
constexpr std::chrono::milliseconds kStep(100);  // a wait's, between questions whether to go on
constexpr std::chrono::seconds kPatienceAtTheEnd(2);
constexpr std::chrono::milliseconds kMaxInterval(1000);

// Twice as long each time, at random: else clients of a daemon that was away come all at once.
std::chrono::milliseconds DelayBefore(int tries) {
  if (tries <= 1) return std::chrono::milliseconds(0);
  const auto delay = std::min(kLastDelay, kFirstDelay * (1 << std::min(tries, 10)));
  thread_local std::minstd_rand random(std::random_device{}());
  return std::uniform_int_distribution<int64_t>(delay.count() / 2, delay.count())(random) *
         std::chrono::milliseconds(1);
}

// Whether another try would fare no better. A daemon that has too many clients may have fewer soon.
bool IsFinal(const absl::Status& status) {
  return KindOf(status) != ErrorKind::kConnection && !absl::IsResourceExhausted(status);
}

}  // namespace

Connection::Clock::duration Connection::Patience() const {
  const auto lease =
      std::chrono::milliseconds(static_cast<int64_t>(limits_.lease_seconds() * 1000));
  const auto patience = options_.reconnect.value_or(lease);
  return closing_ ? std::min<Clock::duration>(patience, kPatienceAtTheEnd) : patience;
}

absl::Status Connection::Lost(const absl::Status& why) {
  Log(LogLevel::kError, "lost the session: ", why.message());
  if (absl::IsNotFound(why)) {
    return MakeError(
        ErrorKind::kConnection,
        absl::StrCat("lost the session with chxd at ", address_,
                     ": it has no such session. The daemon has ended and was started "
                     "again, or the session's lease has ended (--lease)",
                     named() ? absl::StrCat("; connect to the session '", options_.session,
                                            "' again for what is left of it")
                             : std::string()));
  }
  return MakeError(ErrorKind::kConnection,
                   absl::StrCat("lost the session with chxd at ", address_, ": ", why.message()));
}

absl::Status Connection::Recover() {
  const auto now = Clock::now();
  if (now < recovery_.next_try) {
    MutexLock lock(&mutex_);
    if (failed_.ok()) arrived_.wait_until(mutex_, std::min(recovery_.next_try, now + kStep));
    return failed_;
  }
  ++recovery_.tries;
  const absl::Status status = TryToResume();
  if (status.ok()) {
    recovery_.active = false;
    const auto away = std::chrono::duration<double>(Clock::now() - recovery_.since);
    Log(LogLevel::kInfo, "reconnected after ", away.count(), " s; nothing is lost");
    // If no event comes over the new stream it was one more failed try.
    recovery_.next_try = Clock::now() + DelayBefore(recovery_.tries);
    return absl::OkStatus();
  }
  if (IsFinal(status)) return Lost(status);
  const auto left = recovery_.since + Patience() - Clock::now();
  if (left <= Clock::duration::zero()) return Lost(status);
  if (HasEnded(&recovery_.departure, status)) {
    Log(LogLevel::kError, "lost the session: the daemon has ended");
    return Departure::Error(address_);
  }
  // The daemon is there and says what it waits for: that is of interest, once.
  const bool news = absl::IsResourceExhausted(status) && !std::exchange(recovery_.told, true);
  Log(news ? LogLevel::kWarning : LogLevel::kDebug, "try ", recovery_.tries,
      " to reconnect failed: ", status.message());
  recovery_.next_try =
      Clock::now() + std::min<Clock::duration>(left, DelayBefore(recovery_.tries + 1));
  if (const auto due = recovery_.departure.due(); due.has_value() && *due > Clock::now()) {
    recovery_.next_try = std::min(recovery_.next_try, *due);
  }
  return absl::OkStatus();
}

absl::Status Connection::CheckRestored(const v1::OpenReply& reply) {
  // What was mapped is the former daemon's, under numbers that mean nothing now.
  if (segments_ != nullptr) segments_->Retire();
  uint64_t acked = 0;
  {
    MutexLock lock(&mutex_);
    acked = last_acked_batch_;
  }
  const bool whole = reply.last_batch_seq() >= acked && reply.kept().uploads() >= uploads_;
  if (whole) {
    epoch_ = reply.epoch();
    Log(LogLevel::kWarning,
        "goes on in another process of the daemon; memory that is shown as NumPy arrays keeps what "
        "it had");
    return absl::OkStatus();
  }
  const absl::Time written =
      absl::FromUnixMillis(static_cast<int64_t>(reply.kept().snapshot_unix_ms()));
  return absl::DataLossError(absl::StrCat(
      "the daemon has ended, and its session was restored from a snapshot of ",
      absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", written, absl::UTCTimeZone()),
      ", before what this client was told is done; connect again",
      named() ? absl::StrCat(" to the session '", options_.session, "' for what was saved in it")
              : std::string()));
}

absl::Status Connection::TryToResume() {
  uint64_t last_event_seq = 0;
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    last_event_seq = last_event_seq_;
  }
  v1::OpenReply reply;
  std::unique_ptr<CallChannel> channel;
  CHX_RETURN_IF_ERROR(OpenSession(session_id_, Clock::now() + kTryTimeout, &reply, &channel));
  if (reply.epoch() != epoch_) CHX_RETURN_IF_ERROR(CheckRestored(reply));
  std::shared_ptr<Link> link = Attach(std::move(channel), reply.last_batch_seq(), last_event_seq);
  // Writers find the new stream when it has all that came before them.
  uint64_t sent = reply.last_batch_seq();
  for (;;) {
    std::vector<std::shared_ptr<v1::Submit>> again;
    {
      MutexLock lock(&mutex_);
      if (!failed_.ok()) return failed_;
      for (const auto& batch : unacked_) {
        if (batch->batch_seq() > sent) again.push_back(batch);
      }
      if (again.empty()) {
        link_ = std::move(link);
        return absl::OkStatus();
      }
    }
    for (const auto& batch : again) {
      if (!link->Write(*batch)) break;  // the next read will tell
    }
    sent = again.back()->batch_seq();
  }
}

absl::StatusOr<std::chrono::milliseconds> Connection::KeepAlive() {
  bool mine = false;
  bool recovering = false;
  {
    MutexLock lock(&mutex_);
    if (!failed_.ok()) return failed_;
    if (!reading_) mine = reading_ = true;
  }
  if (mine) {  // whoever else reads sees to a cut
    absl::Status status;
    bool got = true;
    while (status.ok() && got) status = ReadEvent(Link::Wait::kNot, &got);
    recovering = recovery_.active;
    {
      MutexLock lock(&mutex_);
      reading_ = false;
      if (!status.ok()) Fail(status);
    }
    arrived_.notify_all();
    CHX_RETURN_IF_ERROR(status);
  }
  if (!recovering) Ping();
  const auto lease =
      std::chrono::milliseconds(static_cast<int64_t>(limits_.lease_seconds() * 1000));
  return recovering ? std::chrono::milliseconds(0)
                    : std::clamp<std::chrono::milliseconds>(
                          lease / 10, std::chrono::milliseconds(20), kMaxInterval);
}

// A batch that was applied before is acknowledged again: a daemon that has nothing else to do
// answers at once, and one that cannot be reached any more is found.
void Connection::Ping() {
  const auto third = std::max(
      kStep, std::chrono::milliseconds(static_cast<int64_t>(limits_.lease_seconds() * 333)));
  const auto now = Clock::now();
  const Clock::time_point heard{Clock::duration(last_heard_.load(std::memory_order_relaxed))};
  if (now - std::max(heard, pinged_) < third) return;
  std::shared_ptr<Link> link;
  v1::Submit ping;
  bool all_acked = false;
  {
    MutexLock lock(&mutex_);
    link = link_;
    all_acked = unacked_.empty();
    ping.set_acked_event_seq(last_event_seq_);
  }
  if (link == nullptr) return;
  if (ping_is_due_back_ && pinged_ > heard && all_acked) {
    link->Cancel();  // the next read takes the session up
    ping_is_due_back_ = false;
    return;
  }
  if (!write_mutex_.TryLock()) return;
  ping.set_batch_seq(next_batch_seq_ - 1);
  link->Write(ping);
  write_mutex_.Unlock();
  pinged_ = now;
  ping_is_due_back_ = all_acked;
}

}  // namespace chx
