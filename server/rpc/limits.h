// What one client may have in flight.
#ifndef CHX_SERVER_RPC_LIMITS_H_
#define CHX_SERVER_RPC_LIMITS_H_

#include <cstdint>

namespace chx::server {

inline constexpr uint32_t kMaxBatchBytes = 4 << 20;
inline constexpr uint32_t kMaxInflightCommands = 1 << 16;  // and in one batch
inline constexpr uint64_t kMaxInflightBytes = 16 << 20;
// About the size of an event, when there is more to say.
inline constexpr uint64_t kEventBytes = 1 << 20;
// A client that does not read must not be able to fill the daemon's memory. Reports of errors are
// left out beyond the first bound, which is what a stream holds without a reader: the handles still
// tell. Values become errors beyond the second. The stream is closed beyond the third.
inline constexpr uint64_t kMaxUnackedErrorBytes = 32 << 10;
inline constexpr uint64_t kMaxUnackedValueBytes = 32 << 20;
inline constexpr uint64_t kMaxUnackedEventBytes = 64 << 20;
inline constexpr int kMaxOpSignatures = 10000;

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_LIMITS_H_
