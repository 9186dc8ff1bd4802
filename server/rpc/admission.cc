#include "server/rpc/admission.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace chx::server {

std::string PeerName(const PeerInfo& peer) {
  return peer.kind == PeerInfo::kUnix ? absl::StrCat("uid ", peer.uid) : peer.address;
}

namespace {

// A connection's thread, and its buffers while they are small.
constexpr int64_t kConnectionBytes = int64_t{128} << 10;
// How often those look for memory who wait for others to give some back.
constexpr std::chrono::milliseconds kLookAgain(20);

}  // namespace

// Places of one sort, by peer. Each is charged, and not refused for that: who has no memory any
// more needs a connection to close a session.
struct Admission::Counter {
  Counter(const char* what, const char* flag, size_t in_all, size_t per_peer, MemoryBudget* memory,
          int64_t bytes)
      : what(what), flag(flag), in_all(in_all), per_peer(per_peer), memory(memory), bytes(bytes) {}

  const char* const what;
  const char* const flag;
  const size_t in_all;
  const size_t per_peer;
  MemoryBudget* const memory;
  const int64_t bytes;  // of one connection or session
  Mutex mutex;
  size_t total ABSL_GUARDED_BY(mutex) = 0;
  absl::flat_hash_map<std::string, size_t> peers ABSL_GUARDED_BY(mutex);

  static absl::StatusOr<Ticket> Admit(const std::shared_ptr<Counter>& counter,
                                      const PeerInfo& peer);
};

struct Admission::Admitted {
  Admitted(std::shared_ptr<Counter> counter, std::string key)
      : counter(std::move(counter)), key(std::move(key)) {}
  ~Admitted() {
    if (counter->memory != nullptr) counter->memory->Release(counter->bytes, false);
    MutexLock lock(&counter->mutex);
    --counter->total;
    const auto it = counter->peers.find(key);
    if (--it->second == 0) counter->peers.erase(it);
  }
  Admitted(const Admitted&) = delete;
  Admitted& operator=(const Admitted&) = delete;

  const std::shared_ptr<Counter> counter;
  const std::string key;
};

absl::StatusOr<Admission::Ticket> Admission::Counter::Admit(const std::shared_ptr<Counter>& counter,
                                                            const PeerInfo& peer) {
  std::string key = absl::StrCat(PeerName(peer), "/", peer.token_label);
  {
    MutexLock lock(&counter->mutex);
    if (counter->total >= counter->in_all) {
      return absl::ResourceExhaustedError(absl::StrCat("this daemon has its ", counter->in_all, " ",
                                                       counter->what, ", as many as ",
                                                       counter->flag, " allows"));
    }
    size_t& count = counter->peers[key];
    if (count >= counter->per_peer) {
      return absl::ResourceExhaustedError(absl::StrCat(PeerName(peer), " has ", count, " ",
                                                       counter->what, ", as many as ",
                                                       counter->flag, "-per-peer allows"));
    }
    ++count;
    ++counter->total;
  }
  if (counter->memory != nullptr) counter->memory->Charge(counter->bytes);
  return Ticket(std::make_shared<Admitted>(counter, std::move(key)));
}

// What frames have reserved.
class Admission::Frames {
 public:
  Frames(size_t bytes, std::chrono::milliseconds wait, MemoryBudget* memory)
      : memory_(memory), wait_(wait), free_(bytes) {}

  bool Reserve(size_t bytes, const void* reader) {
    const auto end = std::chrono::steady_clock::now() + wait_;
    MutexLock lock(&mutex_);
    while (free_ < bytes || !Charge(bytes, reader)) {
      // Nobody tells when the daemon has memory again.
      const auto look = free_ < bytes ? end : std::chrono::steady_clock::now() + kLookAgain;
      changed_.wait_until(mutex_, std::min(look, end));
      if (std::chrono::steady_clock::now() >= end) return false;
    }
    free_ -= bytes;
    return true;
  }
  void Release(size_t bytes, const void* reader) {
    if (bytes == 0) return;
    if (memory_ != nullptr) memory_->Release(static_cast<int64_t>(bytes), true);
    MutexLock lock(&mutex_);
    if (beyond_limit_ == reader) beyond_limit_ = nullptr;
    free_ += bytes;
    changed_.notify_all();
  }

 private:
  bool Charge(size_t bytes, const void* reader) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto charge = static_cast<int64_t>(bytes);
    if (memory_ == nullptr || memory_->TryCharge(charge)) return true;
    if (beyond_limit_ != nullptr && beyond_limit_ != reader) return false;
    beyond_limit_ = reader;
    memory_->Charge(charge);
    return true;
  }

  MemoryBudget* const memory_;
  const std::chrono::milliseconds wait_;
  Mutex mutex_;
  CondVar changed_;
  size_t free_ ABSL_GUARDED_BY(mutex_);
  // Who has a frame for which the daemon had no memory, until it receives the next; null: nobody.
  const void* beyond_limit_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

Admission::Admission(const AdmissionLimits& limits)
    : connections_(std::make_shared<Counter>("connections", "--max-sessions", limits.connections,
                                             limits.connections_per_peer, limits.memory,
                                             kConnectionBytes)),
      sessions_(std::make_shared<Counter>("sessions", "--max-sessions", limits.sessions,
                                          limits.sessions_per_peer, nullptr, 0)),
      frames_(std::make_unique<Frames>(limits.frame_bytes, limits.frame_wait, limits.memory)) {}

Admission::~Admission() = default;

absl::StatusOr<Admission::Ticket> Admission::AdmitConnection(const PeerInfo& peer) {
  return Counter::Admit(connections_, peer);
}

absl::StatusOr<Admission::Ticket> Admission::AdmitSession(const PeerInfo& peer) {
  return Counter::Admit(sessions_, peer);
}

bool Admission::Reserve(size_t bytes, const void* reader) {
  return frames_->Reserve(bytes, reader);
}

void Admission::Release(size_t bytes, const void* reader) { frames_->Release(bytes, reader); }

}  // namespace chx::server
