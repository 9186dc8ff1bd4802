// What one client may have in flight.
#ifndef CHX_SERVER_RPC_LIMITS_H_
#define CHX_SERVER_RPC_LIMITS_H_

#include <cstdint>

namespace chx {

inline constexpr uint32_t kMaxBatchBytes = 4 << 20;
inline constexpr uint32_t kMaxInflightCommands = 1 << 16;
inline constexpr uint64_t kMaxInflightBytes = 16 << 20;
// A client that does not acknowledge what it was sent: its stream is closed beyond this.
inline constexpr uint64_t kMaxUnackedEventBytes = 32 << 20;
inline constexpr int kMaxOpSignatures = 10000;

}  // namespace chx

#endif  // CHX_SERVER_RPC_LIMITS_H_
