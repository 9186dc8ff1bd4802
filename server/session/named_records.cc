// SessionManager's part about sessions with names: how they pass from one client to the next.
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/log/log.h"
#include "server/session/session_manager.h"

namespace chx::server {
namespace {

// How long a client that takes a session up waits for what its former client's batch still does,
// which is not stopped: an update of a model in place would be lost. Below clients' own patience.
constexpr std::chrono::milliseconds kTakeOverPatience(7000);
// How often a session's record may change under a client that takes it up.
constexpr int kMaxTries = 16;

SessionName NameOf(const SessionOwner& owner) { return {owner.tenant->name, owner.name}; }

// Holds a record's stream_mutex, if it could be had in time.
class StreamTurn {
 public:
  StreamTurn(SessionRecord* record,
             std::chrono::milliseconds patience) ABSL_NO_THREAD_SAFETY_ANALYSIS : record_(record) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!(held_ = record->stream_mutex.TryLock())) {
      if (std::chrono::steady_clock::now() >= end) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~StreamTurn() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (held_) record_->stream_mutex.Unlock();
  }
  StreamTurn(const StreamTurn&) = delete;
  bool held() const { return held_; }

 private:
  SessionRecord* const record_;
  bool held_ = false;
};

}  // namespace

std::chrono::milliseconds SessionManager::LeaseOf(const SessionRecord& record) const {
  if (!record.waits) return options_.lease;
  const std::chrono::milliseconds of_tenant = record.owner.tenant->named_session_lease;
  return of_tenant.count() != 0 ? of_tenant : options_.named_lease;
}

absl::StatusOr<SessionRecordPtr> SessionManager::OpenNamed(SessionOwner owner) {
  CHX_RETURN_IF_ERROR(CheckSessionName(owner.name));
  const SessionName name = NameOf(owner);
  const absl::Status why = absl::FailedPreconditionError(
      absl::StrCat("its session '", owner.name, "' was taken over by ", owner.client_name, " (",
                   owner.peer, ")"));
  for (int tries = 0; tries < kMaxTries; ++tries) {
    SessionRecordPtr old;
    std::shared_ptr<const StreamHooks> stream;
    NamedSessions::Restorer restore;
    {
      MutexLock lock(&mutex_);
      if (draining_) return absl::UnavailableError("the daemon is shutting down");
      auto it = sessions_.find(names_.Find(name));
      if (it != sessions_.end()) {
        old = it->second;
        stream = old->stream;
      } else {
        restore = names_.KeptByName(name);
      }
    }
    if (restore != nullptr) {
      CHX_RETURN_IF_ERROR(restore());
      continue;
    }
    if (old != nullptr) {
      if (stream != nullptr && stream->cancel) stream->cancel();
      SessionRecordPtr record = PassOn(old, owner, why, kTakeOverPatience);
      if (record != nullptr) return record;
      MutexLock lock(&mutex_);
      if (names_.Find(name) != old->id) continue;
      return absl::UnavailableError(
          absl::StrCat("the session '", owner.name,
                       "' still carries out what its former client has sent; try again later"));
    }
    CHX_ASSIGN_OR_RETURN(SessionRecordPtr record, NewRecord(owner));
    MutexLock lock(&mutex_);
    if (!names_.Find(name).empty()) continue;  // somebody was faster
    CHX_RETURN_IF_ERROR(Enter(record));
    names_.Set(name, record->id);
    NoteOpened(*record);
    return record;
  }
  return absl::UnavailableError(
      absl::StrCat("too many clients take up the session '", owner.name, "' at once"));
}

SessionRecordPtr SessionManager::PassOn(const SessionRecordPtr& old, SessionOwner owner,
                                        absl::Status why, std::chrono::milliseconds patience) {
  absl::StatusOr<std::string> id = NewSessionId();
  const StreamTurn turn(old.get(), patience);
  if (!turn.held() || !id.ok()) return nullptr;
  const auto record = std::make_shared<SessionRecord>();
  std::shared_ptr<const StreamHooks> stream;
  {
    MutexLock lock(&mutex_);
    auto it = sessions_.find(old->id);
    if (it == sessions_.end() || it->second != old) return nullptr;
    record->place = old->place;  // before Remove, which gives it up
    stream = Remove(old, why);
    [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { old->passed_on = why; }();
    record->id = *std::move(id);
    record->number = old->number;
    record->key = old->key;
    record->owner = std::move(owner);
    record->session = old->session;
    record->metrics = old->metrics;
    record->opened = old->opened;
    record->detached = record->active = std::chrono::steady_clock::now();
    record->taken_up = true;
    // Its batches come after those that the former client had, which it may have cancelled.
    record->last_batch_seq = std::max(old->last_batch_seq.load(), old->cancelled_through.load());
    sessions_.emplace(record->id, record);
    names_.Set(NameOf(record->owner), record->id);
  }
  old->transfers.End();
  if (stream != nullptr && stream->cancel) stream->cancel();
  // Nobody else knows the new id yet.
  record->session->BeginAnew();
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kInfo, "session passed on",
      {{"session", record->number},
       {"tenant", record->owner.tenant->name},
       {"name", record->owner.name},
       {"peer", record->owner.peer},
       {"client", record->owner.client_name},
       {"former", old->owner.client_name}});
  return record;
}

absl::StatusOr<SessionRecordPtr> SessionManager::Restore(
    SessionOwner owner, absl::FunctionRef<absl::Status(SessionRecord*)> fill) {
  CHX_ASSIGN_OR_RETURN(SessionRecordPtr record, NewRecord(std::move(owner)));
  CHX_RETURN_IF_ERROR(fill(record.get()));
  record->detached = record->active = std::chrono::steady_clock::now();
  const SessionOwner& of = record->owner;
  MutexLock lock(&mutex_);
  if (sessions_.contains(record->id)) return absl::AlreadyExistsError("its id is there twice");
  if (!of.name.empty()) {
    if (!names_.Find(NameOf(of)).empty()) {
      return absl::AlreadyExistsError("there is another session of its name");
    }
    names_.Set(NameOf(of), record->id);
  }
  const absl::Status entered = Enter(record);
  if (!entered.ok() && !of.name.empty()) names_.Erase(NameOf(of), record->id);
  if (!entered.ok()) return entered;
  names_.EndKeeping(record->id);
  NoteOpened(*record);
  return record;
}

void SessionManager::Keep(const std::string& id, SessionName name,
                          NamedSessions::Restorer restore) {
  MutexLock lock(&mutex_);
  names_.Keep(id, std::move(name), std::move(restore));
}

void SessionManager::KeepUnreadable(const std::string& key, absl::Status why) {
  MutexLock lock(&mutex_);
  names_.KeepUnreadable(key, std::move(why));
}

absl::StatusOr<SessionRecordPtr> SessionManager::FindOrRestore(const std::string& id,
                                                               const Tenant& tenant) {
  NamedSessions::Restorer restore;
  {
    MutexLock lock(&mutex_);
    restore = names_.KeptById(id, tenant.name);
  }
  if (restore != nullptr) CHX_RETURN_IF_ERROR(restore());
  return Find(id);
}

bool SessionManager::LetWait(const SessionRecordPtr& record, std::chrono::milliseconds patience) {
  if (record->owner.name.empty() || !record->session->has_kept()) return false;
  SessionOwner nobody = record->owner;
  nobody.client_name = "";
  nobody.peer = "";
  const SessionRecordPtr waiting =
      PassOn(record, std::move(nobody),
             absl::FailedPreconditionError(
                 "it was closed, or its lease has ended (--lease); what was saved in it "
                 "is there for who connects to it by its name"),
             patience);
  if (waiting == nullptr) return false;
  MutexLock lock(&mutex_);
  waiting->waits = true;
  // It goes on using the daemon: it counts for its peer as before.
  if (waiting->session->runs().active > 0) waiting->admission = record->admission;
  return true;
}

absl::StatusOr<std::vector<SessionOutput::Error>> SessionManager::Leave(const std::string& id) {
  const SessionRecordPtr record = Find(id);
  if (record == nullptr || record->owner.name.empty() || !record->session->has_kept()) {
    return Close(id);
  }
  std::vector<SessionOutput::Error> unread =
      record->session->UnreadErrorsWithin(std::chrono::milliseconds(250));
  // A client that closes has waited for all that it has sent (client/session.cc).
  if (!LetWait(record, kTakeOverPatience)) return Close(id);
  return unread;
}

}  // namespace chx::server
