// The devices that a daemon serves, opened from backends at start.
#ifndef CHX_SERVER_ENGINE_DEVICES_H_
#define CHX_SERVER_ENGINE_DEVICES_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/backend.h"

namespace chx::server {

class SpillFolder;

// A device with the account of what all sessions hold on it.
struct DeviceSlot {
  std::unique_ptr<Device> device;
  std::atomic<int64_t> used_bytes{0};
  // Files for arrays that a session has no memory for; null: there are none. Set before there are
  // sessions.
  SpillFolder* spill = nullptr;
};

// Filled at start by one thread; afterwards read-only and thread-safe.
class Devices {
 public:
  // Opens each "backend:index" of a comma-separated list. The backends must outlive this object.
  // An unknown backend, an index out of range or a backend without a kernel for each operator is
  // an error that says so. If none of them is the host, "native:0" comes after them, where there is
  // such a backend: clients expect it, and values pass through its memory.
  absl::Status Open(absl::string_view list, const std::vector<Backend*>& backends);

  int size() const { return static_cast<int>(slots_.size()); }
  DeviceSlot& slot(int i) const { return *slots_[i]; }
  Device& at(int i) const { return *slots_[i]->device; }
  // Whether there is none left that works, of those that were listed.
  bool all_lost() const;
  // Whether its memory can be shared with clients on this host.
  bool shares_memory(int i) const;

 private:
  absl::Status Add(absl::string_view name, const std::vector<Backend*>& backends);

  std::vector<std::unique_ptr<DeviceSlot>> slots_;
  int listed_ = 0;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_DEVICES_H_
