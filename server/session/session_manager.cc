#include "server/session/session_manager.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "ops/error.h"
#include "server/engine/memory_size.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

// How long Close waits for a session that it has stopped, to tell of unread errors.
constexpr std::chrono::milliseconds kErrorsPatience(250);

// A client that opens and closes sessions without end fills no disk.
LogLimit* NewLimit() { return new LogLimit(/*burst=*/100, std::chrono::milliseconds(100)); }

void LogOpened(const SessionRecord& record) {
  static LogLimit* const limit = NewLimit();
  Log(limit, LogLevel::kInfo, "session opened",
      {{"session", record.number},
       {"tenant", record.owner.tenant->name},
       {"peer", record.owner.peer},
       {"client", record.owner.client_name}});
}

void LogEnded(const SessionRecord& record, absl::string_view reason) {
  static LogLimit* const limit = NewLimit();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - record.opened);
  Log(limit, LogLevel::kInfo, "session ended",
      {{"session", record.number},
       {"tenant", record.owner.tenant->name},
       {"peer", record.owner.peer},
       {"client", record.owner.client_name},
       {"reason", reason},
       {"seconds", seconds.count()}});
}

// By how its client reaches the daemon.
SessionLabels LabelsOf(const SessionOwner& owner) {
  return {owner.tenant->name, owner.share ? "local" : "remote"};
}

EndReason ReasonOf(absl::string_view text) {
  if (text == kClosedByClient) return EndReason::kClosed;
  if (text == kLeaseEnded) return EndReason::kLease;
  if (text == kIdleEnded || text == kAgeEnded) return EndReason::kLimit;
  if (text == kKilledByAdmin) return EndReason::kKilled;
  return text == kProtocolBroken ? EndReason::kProtocol : EndReason::kOther;
}

uint64_t NewEpoch() {
  uint64_t epoch = 0;
  if (getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch)) {
    epoch = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  return epoch;
}

std::vector<std::string> NamesOf(const Devices& devices) {
  std::vector<std::string> names;
  names.reserve(static_cast<size_t>(devices.size()));
  for (int i = 0; i < devices.size(); ++i) names.push_back(devices.at(i).name());
  return names;
}

}  // namespace

// From the kernel's generator: ids are keys and must not be guessed.
absl::StatusOr<std::string> NewSessionId() {
  std::string id(16, 0);
  if (getrandom(&id[0], id.size(), 0) == static_cast<ssize_t>(id.size())) return id;
  return absl::InternalError("the kernel gave no random bytes");
}

SessionManager::SessionManager(const Devices* devices, const ManagerOptions& options)
    : devices_(devices),
      options_(options),
      epoch_(NewEpoch()),
      tenants_(NamesOf(*devices)),
      reaper_([this] { ReapLoop(); }) {
  for (int i = 0; i < devices->size(); ++i) {
    Device* const device = &devices->at(i);
    device->set_relief([this, device] { return RelieveDevice(*device); });
  }
  if (options_.budget == nullptr) return;
  options_.budget->set_relief([this](const MemoryGroup* group) { return Relieve(group); });
}

SessionManager::~SessionManager() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  reaper_.join();
  if (options_.budget != nullptr) options_.budget->set_relief(nullptr);
  for (int i = 0; i < devices_->size(); ++i) devices_->at(i).set_relief(nullptr);
}

SessionLimits SessionManager::LimitsFor(const TenantPtr& tenant, const TenantPlace& place) const {
  SessionLimits limits = options_.session;
  limits.tenant = tenant;
  limits.turn_group = place.turns.get();
  if (tenant->session_memory_bytes != 0) {
    limits.memory_bytes = tenant->session_memory_bytes;
    if (options_.budget != nullptr) {
      limits.memory_bytes = std::min(limits.memory_bytes, options_.budget->limit());
    }
  }
  if (tenant->memory_bytes != 0) {
    limits.memory_bytes = std::min(limits.memory_bytes, tenant->memory_bytes);
  }
  return limits;
}

absl::StatusOr<MemoryAccountPtr> SessionManager::NewAccount(const SessionLimits& limits,
                                                            const TenantPlace& place) const {
  MemoryBudget* const budget = options_.budget;
  auto account = std::make_shared<MemoryAccount>(limits.memory_bytes, budget, place.memory);
  const int64_t guaranteed = std::min(limits.tenant->guaranteed_bytes, limits.memory_bytes);
  if (guaranteed != 0 && !account->Guarantee(guaranteed)) {
    return MemoryError(
        "[open] no room for a session of the tenant '", limits.tenant->name,
        "', each of which is guaranteed ", FormatMemorySize(guaranteed), ": the daemon's sessions ",
        "hold or are guaranteed ", FormatMemorySize(budget->used()), " of its limit of ",
        FormatMemorySize(budget->limit()), "; try again in ", options_.lease.count() / 1000,
        " s, when sessions that nobody uses any more have ended");
  }
  if (!account->TryCharge(kSessionBytes, MemoryUse::kFixed)) {
    if (!place.memory->host().Fits(kSessionBytes)) return account->Exhausted(kSessionBytes);
    return MemoryError("[open] no room for another session: the daemon holds ", budget->used(),
                       " of its memory limit of ", budget->limit(), "; try again in ",
                       options_.lease.count() / 1000, " s");
  }
  return account;
}

bool SessionManager::Relieve(const MemoryGroup* group) {
  bool any = false;
  for (SessionRecordPtr& record : List()) {
    const MemoryAccount& account = *record->session->account();
    const bool asked =
        group == nullptr ? account.beyond_guarantee() : account.group().get() == group;
    any |= asked && record->session->GiveBackCaches(nullptr);
    // Not here, under the locks of whoever needs memory, if it has been closed meanwhile.
    disposer_.Destroy(std::move(record));
  }
  return any;
}

bool SessionManager::RelieveDevice(const Device& device) {
  bool any = false;
  for (SessionRecordPtr& record : List()) {
    any |= record->session->GiveBackCaches(&device);
    disposer_.Destroy(std::move(record));
  }
  return any;
}

absl::StatusOr<SessionRecordPtr> SessionManager::Open(SessionOwner owner) {
  if (!owner.name.empty()) return OpenNamed(std::move(owner));
  CHX_ASSIGN_OR_RETURN(SessionRecordPtr record, NewRecord(std::move(owner)));
  {
    MutexLock lock(&mutex_);
    CHX_RETURN_IF_ERROR(Enter(record));
  }
  NoteOpened(*record);
  return record;
}

void SessionManager::NoteOpened(const SessionRecord& record) {
  record.session->counters().opened.Add();
  LogOpened(record);
}

absl::Status SessionManager::Enter(const SessionRecordPtr& record) {
  if (draining_) return absl::UnavailableError("the daemon is shutting down");
  if (sessions_.size() >= options_.max_sessions) {
    return MemoryError("[open] this daemon serves at most ", options_.max_sessions, " sessions");
  }
  record->number = next_number_++;
  record->session->SetName(record->number, record->owner.client_name);
  sessions_.emplace(record->id, record);
  return absl::OkStatus();
}

absl::StatusOr<SessionRecordPtr> SessionManager::NewRecord(SessionOwner owner) {
  CHX_ASSIGN_OR_RETURN(TenantPlace place, tenants_.Enter(*owner.tenant));
  const SessionLimits limits = LimitsFor(owner.tenant, place);
  CHX_ASSIGN_OR_RETURN(MemoryAccountPtr account, NewAccount(limits, place));
  auto record = std::make_shared<SessionRecord>();
  CHX_ASSIGN_OR_RETURN(record->id, NewSessionId());
  CHX_ASSIGN_OR_RETURN(const std::string key, NewSessionId());
  record->key = absl::BytesToHexString(key);
  if (!owner.name.empty()) {
    record->key = KeyPrefix({owner.tenant->name, owner.name}) + record->key;
  }
  record->owner = std::move(owner);
  record->place = std::move(place);
  record->metrics = options_.metrics;
  SessionResources resources;
  resources.share = record->owner.share;
  resources.account = account;
  if (options_.metrics != nullptr) {
    resources.counters = options_.metrics->Open(LabelsOf(record->owner));
  }
  if (options_.sharing != nullptr) {
    resources.sharing = options_.sharing->Join(record->owner.tenant, account);
  }
  if (options_.groups != nullptr) {
    resources.groups =
        std::make_unique<GroupMember>(options_.groups, record->owner.tenant->name, account);
  }
  record->session = std::make_shared<Session>(devices_, limits, std::move(resources));
  record->opened = std::chrono::steady_clock::now();
  record->detached = record->active = record->opened;
  return record;
}

SessionRecordPtr SessionManager::Find(const std::string& id) {
  MutexLock lock(&mutex_);
  auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second;
}

SessionRecordPtr SessionManager::FindByNumber(uint64_t number) {
  MutexLock lock(&mutex_);
  for (const auto& entry : sessions_) {
    if (entry.second->number == number) return entry.second;
  }
  return nullptr;
}

absl::Status SessionManager::WhyGone(const std::string& id) {
  MutexLock lock(&mutex_);
  return names_.WhyGone(id);
}

void SessionManager::Retire(const std::string& id, absl::Status why) {
  MutexLock lock(&mutex_);
  names_.Retire(id, std::move(why));
}

uint64_t SessionManager::Attach(const SessionRecordPtr& record, StreamHooks stream) {
  const auto hooks = std::make_shared<const StreamHooks>(std::move(stream));
  std::shared_ptr<const StreamHooks> older;
  uint64_t attachment = 0;
  {
    MutexLock lock(&mutex_);
    if (!sessions_.contains(record->id)) return 0;
    older = std::exchange(record->stream, hooks);
    attachment = record->attachment = next_attachment_++;
    record->hung_up = false;
  }
  if (older != nullptr && older->cancel) older->cancel();
  if (draining_ && hooks->on_draining) hooks->on_draining();
  return attachment;
}

void SessionManager::Detach(const SessionRecordPtr& record, uint64_t attachment) {
  {
    MutexLock lock(&mutex_);
    if (record->attachment != attachment) return;
    record->attachment = 0;
    record->stream = nullptr;
    // The lease of one that has hung up runs already.
    if (!record->hung_up) record->detached = std::chrono::steady_clock::now();
    record->hung_up = false;
  }
  wake_.notify_all();
}

absl::Status SessionManager::WhyEnded(absl::string_view reason) {
  const EndReason why = ReasonOf(reason);
  if (why != EndReason::kLease && why != EndReason::kLimit && why != EndReason::kKilled) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the session has ended: ", reason));
}

std::shared_ptr<const StreamHooks> SessionManager::Remove(SessionRecordPtr record,
                                                          absl::Status why) {
  sessions_.erase(record->id);
  if (!why.ok()) names_.Retire(record->id, std::move(why));
  // Its memory is its tenant's until it is gone, but another one may take its place.
  record->place.counted = nullptr;
  if (!record->owner.name.empty()) {
    names_.Erase({record->owner.tenant->name, record->owner.name}, record->id);
  }
  return std::exchange(record->stream, nullptr);
}

void SessionManager::WakeStopped() const {
  ComputeSlots* const slots = options_.session.compute_slots;
  if (slots != nullptr) slots->WakeStopped();
  if (options_.groups != nullptr) options_.groups->WakeStopped();
}

void SessionManager::Stop(SessionRecord* record) const {
  record->session->stop().EndSession();
  record->transfers.End();
  WakeStopped();
}

void SessionManager::End(SessionRecordPtr record, const std::shared_ptr<const StreamHooks>& stream,
                         absl::string_view reason) {
  LogEnded(*record, reason);
  record->session->counters().ended[static_cast<size_t>(ReasonOf(reason))].Add();
  Stop(record.get());
  if (stream != nullptr && stream->cancel) stream->cancel();
  if (options_.on_ended) options_.on_ended(record->key);
  disposer_.Destroy(std::move(record));
}

absl::StatusOr<std::vector<SessionOutput::Error>> SessionManager::Close(const std::string& id,
                                                                        absl::string_view reason) {
  SessionRecordPtr record;
  std::shared_ptr<const StreamHooks> stream;
  {
    MutexLock lock(&mutex_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return absl::NotFoundError("no such session");
    record = it->second;
    stream = Remove(record, WhyEnded(reason));
  }
  Stop(record.get());
  std::vector<SessionOutput::Error> unread = record->session->UnreadErrorsWithin(kErrorsPatience);
  End(std::move(record), stream, reason);
  return unread;
}

absl::Status SessionManager::Kill(uint64_t number,
                                  const std::function<bool(const SessionRecord&)>& may) {
  SessionRecordPtr record;
  std::shared_ptr<const StreamHooks> stream;
  {
    MutexLock lock(&mutex_);
    for (const auto& entry : sessions_) {
      if (entry.second->number == number) record = entry.second;
    }
    if (record == nullptr || (may != nullptr && !may(*record))) {
      return absl::NotFoundError(absl::StrCat("there is no session number ", number));
    }
    stream = Remove(record, WhyEnded(kKilledByAdmin));
  }
  End(std::move(record), stream, kKilledByAdmin);
  return absl::OkStatus();
}

absl::Status SessionManager::Cancel(const std::string& id, uint64_t through_batch) {
  {
    MutexLock lock(&mutex_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return absl::NotFoundError("no such session");
    SessionRecord& record = *it->second;
    record.cancelled_through = std::max(record.cancelled_through.load(), through_batch);
    record.session->stop().Cancel(through_batch);
  }
  WakeStopped();
  return absl::OkStatus();
}

std::vector<SessionRecordPtr> SessionManager::List() {
  MutexLock lock(&mutex_);
  std::vector<SessionRecordPtr> records;
  records.reserve(sessions_.size());
  for (const auto& [id, record] : sessions_) records.push_back(record);
  return records;
}

std::vector<SessionSnapshot> SessionManager::Snapshots() {
  const auto now = std::chrono::steady_clock::now();
  MutexLock lock(&mutex_);
  std::vector<SessionSnapshot> snapshots;
  snapshots.reserve(sessions_.size());
  for (const auto& [id, record] : sessions_) {
    snapshots.push_back({record->number, record->owner.client_name, record->owner.tenant,
                         record->owner.peer, record->opened, record->attachment != 0,
                         record->session->stats(), record->session->activity().Look(now),
                         record->session->account()});
  }
  return snapshots;
}

void SessionManager::StartDraining() {
  std::vector<std::shared_ptr<const StreamHooks>> streams;
  {
    MutexLock lock(&mutex_);
    draining_ = true;
    for (const auto& entry : sessions_) {
      if (entry.second->stream != nullptr) streams.push_back(entry.second->stream);
    }
  }
  for (const auto& stream : streams) {
    if (stream->on_draining) stream->on_draining();
  }
}

void SessionManager::StopAll() {
  for (const SessionRecordPtr& record : List()) Stop(record.get());
}

bool SessionManager::attached(const SessionRecordPtr& record) {
  MutexLock lock(&mutex_);
  return record->attachment != 0;
}

}  // namespace chx::server
