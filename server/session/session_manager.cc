#include "server/session/session_manager.h"

#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx {
namespace {

constexpr std::chrono::milliseconds kMaxSleep = std::chrono::hours(1);

// From the kernel's generator: ids are keys and must not be guessed.
absl::Status RandomBytes(void* out, size_t size) {
  if (getrandom(out, size, 0) == static_cast<ssize_t>(size)) return absl::OkStatus();
  return absl::InternalError("the kernel gave no random bytes");
}

uint64_t NewEpoch() {
  uint64_t epoch = 0;
  if (!RandomBytes(&epoch, sizeof(epoch)).ok()) {
    epoch = static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  }
  return epoch;
}

}  // namespace

SessionManager::SessionManager(const Devices* devices, const ManagerOptions& options)
    : devices_(devices), options_(options), epoch_(NewEpoch()), reaper_([this] { ReapLoop(); }) {}

SessionManager::~SessionManager() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  reaper_.join();
}

absl::StatusOr<SessionRecordPtr> SessionManager::Open(std::string client_name, bool share) {
  auto record = std::make_shared<SessionRecord>();
  record->id.resize(16);
  CHX_RETURN_IF_ERROR(RandomBytes(&record->id[0], record->id.size()));
  record->client_name = std::move(client_name);
  record->session = std::make_unique<Session>(devices_, options_.session, share);
  record->opened = std::chrono::steady_clock::now();
  record->detached = record->opened;
  MutexLock lock(&mutex_);
  if (sessions_.size() >= options_.max_sessions) {
    return MemoryError("[open] this daemon serves at most ", options_.max_sessions, " sessions");
  }
  sessions_.emplace(record->id, record);
  return record;
}

SessionRecordPtr SessionManager::Find(const std::string& id) {
  MutexLock lock(&mutex_);
  auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second;
}

uint64_t SessionManager::Attach(const SessionRecordPtr& record,
                                std::function<void()> cancel_stream) {
  std::function<void()> cancel_older;
  uint64_t attachment = 0;
  {
    MutexLock lock(&mutex_);
    if (!sessions_.contains(record->id)) return 0;
    if (record->attachment != 0) cancel_older = std::move(record->cancel_stream);
    attachment = record->attachment = next_attachment_++;
    record->cancel_stream = std::move(cancel_stream);
  }
  if (cancel_older) cancel_older();
  return attachment;
}

void SessionManager::Detach(const SessionRecordPtr& record, uint64_t attachment) {
  {
    MutexLock lock(&mutex_);
    if (record->attachment != attachment) return;
    record->attachment = 0;
    record->cancel_stream = nullptr;
    record->detached = std::chrono::steady_clock::now();
  }
  wake_.notify_all();
}

absl::StatusOr<std::vector<SessionOutput::Error>> SessionManager::Close(const std::string& id) {
  SessionRecordPtr record;
  std::function<void()> cancel;
  {
    MutexLock lock(&mutex_);
    auto it = sessions_.find(id);
    if (it == sessions_.end()) return absl::NotFoundError("no such session");
    record = std::move(it->second);
    sessions_.erase(it);
    cancel = std::move(record->cancel_stream);
  }
  std::vector<SessionOutput::Error> unread = record->session->UnreadErrors();
  if (cancel) cancel();
  return unread;
}

std::vector<SessionRecordPtr> SessionManager::List() {
  MutexLock lock(&mutex_);
  std::vector<SessionRecordPtr> records;
  for (const auto& [id, record] : sessions_) records.push_back(record);
  return records;
}

bool SessionManager::attached(const SessionRecordPtr& record) {
  MutexLock lock(&mutex_);
  return record->attachment != 0;
}

// Sleeps until the next lease ends, and frees those that have ended. Sessions are destroyed
// outside of the lock: that may take a while. Deadlines of functions are looked after every quarter
// of their length.
void SessionManager::ReapLoop() {
  const auto deadline = options_.session.function_deadline;
  const auto period = deadline.count() > 0
                          ? std::clamp<std::chrono::milliseconds>(
                                deadline / 4, std::chrono::milliseconds(10), kMaxSleep)
                          : kMaxSleep;
  auto look = std::chrono::steady_clock::now() + period;
  for (;;) {
    if (std::chrono::steady_clock::now() >= look) {
      for (const SessionRecordPtr& record : List()) record->session->EndLateWalks();
      look = std::chrono::steady_clock::now() + period;
    }
    std::vector<SessionRecordPtr> dead;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      const auto now = std::chrono::steady_clock::now();
      auto next = look;
      for (auto it = sessions_.begin(); it != sessions_.end();) {
        const SessionRecord& record = *it->second;
        const auto end = record.detached + options_.lease;
        if (record.attachment == 0 && end <= now) {
          dead.push_back(std::move(it->second));
          sessions_.erase(it++);
          continue;
        }
        if (record.attachment == 0) next = std::min(next, end);
        ++it;
      }
      if (dead.empty()) wake_.wait_until(mutex_, next);
    }
  }
}

}  // namespace chx
