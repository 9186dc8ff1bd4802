// What the client has defined by number for its commands: modes and locations.
#ifndef CHX_SERVER_SESSION_DEFINITIONS_H_
#define CHX_SERVER_SESSION_DEFINITIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/command.h"
#include "server/autograd/apply.h"
#include "server/engine/memory_budget.h"
#include "server/session/charged_table.h"

namespace chx::server {

// What a string has in the heap.
inline int64_t TextBytes(size_t size) {
  return size < sizeof(std::string) / 2 ? 0 : static_cast<int64_t>(size) + 1 + kAllocationBytes;
}

// Belongs to a session and is used under its lock.
class Definitions {
 public:
  explicit Definitions(MemoryMeter* meter) : meter_(meter) {}

  absl::Status Define(const command::DefineMode& command);
  absl::Status Define(const command::DefineLocation& command);
  void Clear();
  // All of them.
  ChargedTable<uint16_t, RecordMode>& modes() { return modes_; }
  ChargedTable<uint32_t, std::string>& locations() { return locations_; }
  // Which graphs record; null if the mode was never defined.
  const RecordMode* FindMode(uint16_t mode) const;
  // A place in the client's program; null if it was never defined.
  const std::string* FindLocation(uint32_t location) const;

 private:
  MemoryMeter* const meter_;
  ChargedTable<uint16_t, RecordMode> modes_{meter_};
  ChargedTable<uint32_t, std::string> locations_{meter_};
};

}  // namespace chx::server

#endif  // CHX_SERVER_SESSION_DEFINITIONS_H_
