// What several sessions hold together, and may hold: those of a tenant.
#ifndef CHX_SERVER_ENGINE_MEMORY_GROUP_H_
#define CHX_SERVER_ENGINE_MEMORY_GROUP_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chx::server {

// So many bytes, and no more. The limit may change at any time, also to less than what is used.
// Thread-safe.
class MemoryQuota {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  bool TryCharge(int64_t bytes) {
    int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit() - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  // What cannot be refused. May pass the limit.
  void Charge(int64_t bytes) { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void Release(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  int64_t used() const { return used_.load(std::memory_order_relaxed); }
  int64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  void set_limit(int64_t limit) { limit_.store(limit, std::memory_order_relaxed); }
  bool Fits(int64_t bytes) const { return bytes <= limit() - used(); }

 private:
  std::atomic<int64_t> limit_{kNone};
  std::atomic<int64_t> used_{0};
};

// Thread-safe; shared by the accounts of its sessions.
class MemoryGroup {
 public:
  // `devices`: the names of all that there are.
  MemoryGroup(std::string name, const std::vector<std::string>& devices);

  const std::string& name() const { return name_; }
  // Of the host's memory: arrays, records, and what is on its way.
  MemoryQuota& host() { return host_; }
  // Of the arrays on one device; null: there is no such device.
  MemoryQuota* device(absl::string_view name) const;
  // For who needs so many bytes that the quota of that device does not have.
  absl::Status Exhausted(absl::string_view device, int64_t bytes) const;

 private:
  const std::string name_;
  MemoryQuota host_;
  std::map<std::string, std::unique_ptr<MemoryQuota>, std::less<>> devices_;
};
using MemoryGroupPtr = std::shared_ptr<MemoryGroup>;

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_MEMORY_GROUP_H_
