#include "server/state/state_store.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ops/error.h"
#include "server/engine/memory_size.h"
#include "server/log/log.h"
#include "server/runs/runs.h"
#include "server/state/array_messages.h"
#include "server/state/run_messages.h"
#include "server/state/session_reader.h"
#include "server/state/session_writer.h"

namespace chx::server {
namespace {

constexpr std::chrono::seconds kPatience(10);  // of snapshots at intervals, and soon
constexpr std::chrono::hours kNoInterval(24);
// How long a client that asks for its session waits for others' to be restored: less than it waits
// for the daemon.
constexpr std::chrono::seconds kClientsPatience(3);
// A session is not tried again before this many times as long as the last try took: clients that
// ask without end do not keep the disk busy.
constexpr int kPausePerTry = 10;

// Of a file of that key: what names of files and log lines are made of.
absl::Status CheckHead(const state::Head& head, const std::string& key) {
  if (head.key() != key) return Unreadable("it is another session's file");
  if (head.id().size() != 16) return Unreadable("the session's id");
  return head.name().empty() ? absl::OkStatus() : CheckSessionName(head.name());
}

SessionOwner OwnerOf(const state::Head& head, TenantPtr tenant) {
  SessionOwner owner;
  owner.client_name = head.client_name();
  owner.name = head.name();
  owner.peer = head.peer();
  owner.tenant = std::move(tenant);
  return owner;
}

// Before anything is read: a session that does not fit would take memory from others in vain.
absl::Status CheckRoom(const state::Head& head, const SessionState& session) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  const Devices& devices = session.executor.devices();
  uint64_t bytes = 0;
  uint64_t of_host = 0;
  for (const state::Buffer& buffer : head.buffers()) {
    if (buffer.device() >= static_cast<uint32_t>(devices.size())) return Unreadable("a device");
    const int device = static_cast<int>(buffer.device());
    if (devices.slot(device).spill != nullptr) return absl::OkStatus();  // files may take them
    bytes = std::min(kMost, bytes + std::min(kMost, buffer.bytes()));
    if (devices.shares_memory(device)) {
      of_host = std::min(kMost, of_host + std::min(kMost, buffer.bytes()));
    }
  }
  const MemoryAccountPtr& account = session.account();
  if (static_cast<int64_t>(bytes) > account->limit()) {
    return absl::FailedPreconditionError(
        absl::StrCat("its arrays take ", FormatMemorySize(static_cast<int64_t>(bytes)),
                     ", and here a session may have ", FormatMemorySize(account->limit())));
  }
  return MemoryCharge::Of(account, static_cast<int64_t>(of_host), MemoryUse::kArrays).status();
}

// Of what has changed since a snapshot.
int64_t WorkOf(const SessionRecord& record) {
  Session* const session = record.session.get();
  int64_t work = session->stats().commands + session->uploads();
  for (const std::shared_ptr<Run>& run : Runs::List(session)) {
    work += static_cast<int64_t>(run->Watch(~uint64_t{0}, std::chrono::milliseconds(0)).next);
  }
  return work;
}

}  // namespace

// A session whose files were there when the daemon began.
struct StateStore::Kept {
  std::string key;
  std::string id;
  SessionName session;
  // Under restoring_: what came of the last try, and when the next one may be.
  bool restored = false;  // for good: from then on the files may be older than the session
  absl::Status why;
  std::chrono::steady_clock::time_point next_try;
};

absl::StatusOr<std::unique_ptr<StateStore>> StateStore::Open(StateOptions options) {
  std::unique_ptr<StateStore> store(new StateStore(std::move(options)));
  CHX_ASSIGN_OR_RETURN(store->folder_, StateFolder::Open(store->options_.folder));
  store->files_ = std::make_unique<SessionFiles>(store->folder_.get(), store->options_.keep);
  return store;
}

StateStore::~StateStore() { Stop(); }

void StateStore::Start(SessionManager* manager) {
  manager_ = manager;
  const auto keys = files_->Load();
  if (!keys.ok())
    Log(LogLevel::kError, "no sessions restored", {{"reason", keys.status().message()}});
  for (const std::string& key : keys.value_or(std::vector<std::string>())) {
    const auto kept = std::make_shared<Kept>();
    kept->key = key;
    const absl::Status restored = Restore(kept.get());
    if (restored.ok()) continue;
    Log(LogLevel::kError, "session not restored",
        {{"file", PathOf(files_->Of(key)[0])}, {"reason", restored.message()}});
    if (kept->id.empty()) {
      manager->KeepUnreadable(key, NotRestored(restored));
      continue;
    }
    manager->Keep(kept->id, kept->session, [this, kept] { return RestoreKept(kept.get()); });
  }
  thread_ = std::thread([this] { SnapshotWhenDue(); });
}

std::string StateStore::PathOf(const std::string& name) const {
  return absl::StrCat(folder_->path(), "/", name);
}

absl::Status StateStore::NotRestored(const absl::Status& why) const {
  const std::string text =
      absl::StrCat("the session is on the daemon's disk and could not be restored: ", why.message(),
                   "; it is kept there, ");
  if (absl::IsUnavailable(why)) return why;
  if (!absl::IsResourceExhausted(why)) {
    return absl::FailedPreconditionError(absl::StrCat(text, "for when this has changed"));
  }
  return MemoryError(text, "and restored when its client asks for it and there is room: try again ",
                     "in ", manager_->options().lease.count() / 1000,
                     " s, when sessions that nobody uses any more have ended");
}

absl::Status StateStore::RestoreKept(Kept* kept) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const auto end = std::chrono::steady_clock::now() + kClientsPatience;
  while (!restoring_.TryLock()) {
    if (std::chrono::steady_clock::now() >= end) {
      return absl::UnavailableError(
          "the session is on the daemon's disk, and others are being restored; try again");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto began = std::chrono::steady_clock::now();
  absl::Status status = kept->why;
  if (kept->restored) {
    status = absl::OkStatus();  // another client was faster
  } else if (began >= kept->next_try) {
    status = Restore(kept);
    kept->restored = status.ok();
    if (!status.ok()) kept->why = status = NotRestored(status);
    const auto now = std::chrono::steady_clock::now();
    kept->next_try = now + kPausePerTry * (now - began);
  }
  restoring_.Unlock();
  return status;
}

absl::Status StateStore::Restore(Kept* kept) {
  absl::Status damaged;  // of the newest
  std::string newest;    // its session's id
  kept->id.clear();
  for (const std::string& name : files_->Of(kept->key)) {
    const absl::Status status = RestoreFrom(name, kept);
    if (status.ok() && !damaged.ok()) NoteOlder(*kept, name, newest, damaged);
    if (!absl::IsDataLoss(status)) return status;
    if (!damaged.ok()) continue;
    damaged = status;
    newest = kept->id;
  }
  return damaged;
}

void StateStore::NoteOlder(const Kept& kept, const std::string& name, const std::string& newest,
                           const absl::Status& damaged) {
  Log(LogLevel::kError, "snapshot damaged",
      {{"file", PathOf(files_->Of(kept.key)[0])},
       {"reason", damaged.message()},
       {"instead", name}});
  if (newest.empty() || newest == kept.id) return;
  manager_->Retire(newest, absl::FailedPreconditionError(absl::StrCat(
                               "the newest snapshot of the session '", kept.session.second,
                               "' is damaged, and the session is again as a former client had it: "
                               "connect again for what was saved in it")));
}

absl::Status StateStore::RestoreFrom(const std::string& name, Kept* kept) {
  CHX_ASSIGN_OR_RETURN(const OwnedFd fd, folder_->OpenFile(name));
  PartReader file(fd.get());
  CHX_ASSIGN_OR_RETURN(const state::Head head, ReadHead(&file));
  CHX_RETURN_IF_ERROR(CheckHead(head, kept->key));
  kept->id = head.id();
  kept->session = {head.tenant(), head.name()};
  TenantPtr tenant = options_.find_tenant(head.tenant());
  if (tenant == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("there is no tenant ", head.tenant()));
  }
  const SessionOwner owner = OwnerOf(head, std::move(tenant));
  absl::Status runs;
  const auto fill = [&](SessionRecord* record) -> absl::Status {
    record->id = head.id();
    record->key = head.key();
    record->last_batch_seq = head.last_batch_seq();
    record->cancelled_through = head.cancelled_through();
    record->taken_up = head.taken_up();
    record->waits = head.waits();
    record->snapshot_time = absl::FromUnixMillis(static_cast<int64_t>(head.unix_ms()));
    absl::Status status;
    record->session->Inspect([&](SessionState& session) {
      status = CheckRoom(head, session);
      if (status.ok()) status = ReadSession(head, &file, &session);
    });
    CHX_RETURN_IF_ERROR(status);
    runs = ReadRuns(head, record->session.get());
    record->session->set_uploads(static_cast<int64_t>(head.uploads()));
    if (!head.stream().empty()) {
      CHX_ASSIGN_OR_RETURN(auto transport,
                           options_.read_stream(record->session->account(), head.stream()));
      MutexLock lock(&record->stream_mutex);
      record->transport = std::move(transport);
    }
    // Before a client is told anything of it: no later daemon may take up a newer file.
    return files_->ReturnTo(kept->key, name);
  };
  CHX_ASSIGN_OR_RETURN(const SessionRecordPtr record, manager_->Restore(owner, fill));
  Log(LogLevel::kInfo, "session restored",
      {{"session", record->number},
       {"tenant", owner.tenant->name},
       {"name", owner.name},
       {"client", owner.client_name},
       {"written", absl::FormatTime(record->snapshot_time, absl::UTCTimeZone())}});
  if (!runs.ok()) {
    Log(LogLevel::kError, "runs not restored",
        {{"session", record->number}, {"reason", runs.message()}});
  }
  if (options_.on_restored != nullptr) options_.on_restored(record);
  return absl::OkStatus();
}

absl::Status StateStore::Write(const SessionRecordPtr& record, std::chrono::milliseconds patience,
                               uint64_t* bytes) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  // Between two batches: what the client was told of, and what it was not, is then clear.
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!record->stream_mutex.TryLock()) {
    if (std::chrono::steady_clock::now() >= end) {
      return absl::DeadlineExceededError("the session is busy");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  absl::Status status = record->passed_on;
  if (status.ok() && record->session->stop().session_ended()) {
    status = absl::CancelledError("the session was stopped in the middle of a batch");
  }
  if (status.ok()) {
    state::Head head;
    head.set_key(record->key);
    head.set_id(record->id);
    head.set_name(record->owner.name);
    head.set_tenant(record->owner.tenant->name);
    head.set_client_name(record->owner.client_name);
    head.set_peer(record->owner.peer);
    head.set_waits(record->waits);
    head.set_taken_up(record->taken_up);
    head.set_last_batch_seq(record->last_batch_seq);
    head.set_cancelled_through(record->cancelled_through);
    if (record->transport != nullptr) head.set_stream(record->transport->Serialize());
    head.set_unix_ms(static_cast<uint64_t>(absl::ToUnixMillis(absl::Now())));
    MutexLock lock(&writing_);
    if (manager_->Find(record->id) != record) {
      status = absl::CancelledError("the session has ended");
    } else {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      status = absl::DeadlineExceededError("the session is busy with a run's step");
      record->session->InspectWithin(left, [&](SessionState& session) {
        head.set_uploads(static_cast<uint64_t>(record->session->uploads()));
        AddRuns(record->session.get(), &head);
        status = files_->Write(record->key, [&](int fd) {
          PartWriter file(fd);
          const absl::Status written = WriteSession(&session, std::move(head), &file);
          *bytes = file.bytes();
          return written;
        });
      });
    }
    RemoveEnded();
  }
  record->stream_mutex.Unlock();
  return status;
}

SnapshotCounts StateStore::SnapshotAll(std::chrono::milliseconds patience) {
  SnapshotCounts counts;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (const SessionRecordPtr& record : manager_->List()) {
    if (!Allows(*record->owner.tenant, Feature::kSnapshots)) continue;
    uint64_t bytes = 0;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    const absl::Status status = Write(record, std::max(left, std::chrono::milliseconds(0)), &bytes);
    if (status.ok()) {
      ++counts.sessions;
      counts.bytes += bytes;
      continue;
    }
    ++counts.failed;
    if (counts.why.ok()) counts.why = status;
    Log(LogLevel::kError, "no snapshot of a session",
        {{"session", record->number},
         {"tenant", record->owner.tenant->name},
         {"name", record->owner.name},
         {"client", record->owner.client_name},
         {"reason", status.message()}});
  }
  Log(LogLevel::kInfo, "snapshots written",
      {{"sessions", counts.sessions}, {"failed", counts.failed}, {"bytes", counts.bytes}});
  return counts;
}

absl::StatusOr<SnapshotCounts> StateStore::SnapshotOne(uint64_t number,
                                                       std::chrono::milliseconds patience) {
  for (const SessionRecordPtr& record : manager_->List()) {
    if (record->number != number) continue;
    CHX_RETURN_IF_ERROR(CheckAllowed(*record->owner.tenant, Feature::kSnapshots, "snapshot"));
    SnapshotCounts counts;
    CHX_RETURN_IF_ERROR(Write(record, patience, &counts.bytes));
    counts.sessions = 1;
    return counts;
  }
  return absl::NotFoundError(absl::StrCat("there is no session number ", number));
}

void StateStore::Forget(const std::string& key) {
  {
    MutexLock lock(&mutex_);
    ended_.push_back(key);
  }
  if (!writing_.TryLock()) return;  // whoever writes a file removes it afterwards
  RemoveEnded();
  writing_.Unlock();
}

void StateStore::RemoveEnded() {
  std::vector<std::string> ended;
  {
    MutexLock lock(&mutex_);
    ended.swap(ended_);
  }
  for (const std::string& key : ended) files_->Remove(key);
}

void StateStore::SnapshotSoon(const Session* session) {
  MutexLock lock(&mutex_);
  if (asked_.insert(session).second) wake_.notify_all();
}

bool StateStore::AwaitWork(std::chrono::steady_clock::time_point interval,
                           std::chrono::steady_clock::time_point asked,
                           std::set<const Session*>* sessions) {
  MutexLock lock(&mutex_);
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (stopping_) return false;
    if (now >= asked) sessions->swap(asked_);
    if (now >= interval || !sessions->empty()) return true;
    wake_.wait_until(mutex_, asked_.empty() ? interval : std::min(interval, asked));
  }
}

void StateStore::SnapshotWhenDue() {
  const auto pause =
      options_.interval.count() > 0 ? options_.interval : std::chrono::milliseconds(kNoInterval);
  auto asked = std::chrono::steady_clock::now();
  auto next = asked + pause;
  for (std::set<const Session*> sessions; AwaitWork(next, asked, &sessions); sessions.clear()) {
    const auto began = std::chrono::steady_clock::now();
    if (!sessions.empty()) {
      for (const SessionRecordPtr& record : manager_->List()) {
        if (sessions.count(record->session.get()) > 0) SnapshotForThread(record);
      }
      const auto now = std::chrono::steady_clock::now();
      asked = now + (now - began);
    }
    if (began < next) continue;
    if (options_.interval.count() > 0) SnapshotChanged();
    next = std::chrono::steady_clock::now() + pause;
  }
}

bool StateStore::SnapshotForThread(const SessionRecordPtr& record) {
  uint64_t bytes = 0;
  const absl::Status status = Write(record, kPatience, &bytes);
  if (status.ok()) return true;
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kWarning, "no snapshot of a session",
      {{"session", record->number}, {"reason", status.message()}});
  return false;
}

void StateStore::SnapshotChanged() {
  std::map<std::string, int64_t> work;
  for (const SessionRecordPtr& record : manager_->List()) {
    if (!Allows(*record->owner.tenant, Feature::kSnapshots)) continue;
    const int64_t now = WorkOf(*record);
    auto last = written_at_.find(record->key);
    if ((last != written_at_.end() && last->second == now) || SnapshotForThread(record)) {
      work[record->key] = now;
    }
  }
  written_at_ = std::move(work);
}

void StateStore::Stop() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  MutexLock lock(&writing_);
  RemoveEnded();
}

}  // namespace chx::server
