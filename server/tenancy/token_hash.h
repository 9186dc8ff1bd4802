// What is kept and compared of a token.
#ifndef CHX_SERVER_TENANCY_TOKEN_HASH_H_
#define CHX_SERVER_TENANCY_TOKEN_HASH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace chx::server {

// The SHA-256 of a token, 32 bytes. Tokens are random, not passwords: no salt, and no slow hash.
std::string HashToken(absl::string_view token);

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_TOKEN_HASH_H_
