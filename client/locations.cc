#include "client/locations.h"

#include <pthread.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"

namespace chx {
namespace {

constexpr size_t kMaxLocationBytes = 1024;  // the daemon's limit

struct LocationTable {
  Mutex mutex;
  absl::flat_hash_map<std::string, uint32_t> numbers ABSL_GUARDED_BY(mutex);
  std::vector<std::string> texts ABSL_GUARDED_BY(mutex) = {""};
};

// If a thread held the mutex at a fork, it would stay locked in the child.
void LockLocations() ABSL_NO_THREAD_SAFETY_ANALYSIS;
void UnlockLocations() ABSL_NO_THREAD_SAFETY_ANALYSIS;

LocationTable& Locations() {
  static auto* const table = [] {
    auto* const made = new LocationTable;
    pthread_atfork(LockLocations, UnlockLocations, UnlockLocations);
    return made;
  }();
  return *table;
}

void LockLocations() { Locations().mutex.Lock(); }
void UnlockLocations() { Locations().mutex.Unlock(); }

}  // namespace

uint32_t InternLocation(absl::string_view text) {
  // The file's name and the line are at the end.
  if (text.size() > kMaxLocationBytes) text.remove_prefix(text.size() - kMaxLocationBytes);
  LocationTable& table = Locations();
  MutexLock lock(&table.mutex);
  const auto [it, inserted] =
      table.numbers.try_emplace(std::string(text), static_cast<uint32_t>(table.texts.size()));
  if (inserted) table.texts.emplace_back(text);
  return it->second;
}

std::string LocationText(uint32_t location) {
  LocationTable& table = Locations();
  MutexLock lock(&table.mutex);
  return table.texts[location];
}

}  // namespace chx
