#include "client/stage.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/log.h"
#include "client/waiting.h"

namespace chx {
namespace {

constexpr size_t kLeastBytes = 512 << 10;
constexpr int kTriesLater = 64;  // transfers, after memory was refused

void LogFallback(const Connection& connection, const absl::Status& why) {
  internal::Log(LogLevel::kInfo,
                absl::StrCat("chxd at ", connection.address(),
                             ": transfers without a stage in shared memory: ", why.message()));
}

}  // namespace

absl::StatusOr<bool> Stage::Open(const Connection& connection, SharedMemory* memory,
                                 size_t most_bytes, uint64_t share_of_memory) {
  if (handle != 0) return true;
  if (refusals > 0 && refusals++ < kTriesLater) return false;
  refusals = 1;
  const absl::optional<DeviceId> device = connection.SharingDevice();
  const size_t size = std::min<uint64_t>(
      most_bytes, RoundDown(connection.session_memory_bytes() / share_of_memory));
  if (!device.has_value() || size < kLeastBytes) return false;
  Handle array = 0;
  absl::StatusOr<MappedBlock> mapped = memory->Allocate(
      ArraySpec(Dtype::kUint8, Shape({static_cast<int64_t>(size)}), *device), false, &array);
  if (Interruption::Is(mapped.status())) {
    refusals = 0;
    return mapped.status();
  }
  if (!mapped.ok()) {
    LogFallback(connection, mapped.status());
    return false;
  }
  handle = array;
  mapping = std::move(mapped->mapping);
  data = mapped->data;
  bytes = size;
  // No forked process has any use for it.
  madvise(mapping->data(), mapping->bytes(), MADV_DONTFORK);
  return true;
}

}  // namespace chx
