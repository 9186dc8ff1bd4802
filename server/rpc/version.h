#ifndef CHX_SERVER_RPC_VERSION_H_
#define CHX_SERVER_RPC_VERSION_H_

namespace chx {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace chx

#endif  // CHX_SERVER_RPC_VERSION_H_
