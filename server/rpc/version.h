#ifndef CHX_SERVER_RPC_VERSION_H_
#define CHX_SERVER_RPC_VERSION_H_

namespace chx::server {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_VERSION_H_
