// Numbers of bytes as people write and read them.
#ifndef CHX_SERVER_ENGINE_MEMORY_SIZE_H_
#define CHX_SERVER_ENGINE_MEMORY_SIZE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace chx::server {

// Bytes: "1000000". With a unit of any case, K, M, G or T: "4GB" and "4G" are 4 * 10^9, "4GiB" and
// "4Gi" 4 * 2^30; "1.5GiB". A share of `whole`: "0.5" or "50%". The
// result is positive. An error says what is expected, without the flag's name.
absl::StatusOr<int64_t> ParseMemorySize(absl::string_view text, int64_t whole);

// "512 MiB", "3.9 GiB", "100 bytes".
std::string FormatMemorySize(int64_t bytes);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_MEMORY_SIZE_H_
