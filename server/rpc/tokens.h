// Which tokens let a connection in, and to what, where no tenants are named.
#ifndef CHX_SERVER_RPC_TOKENS_H_
#define CHX_SERVER_RPC_TOKENS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace chx::server {

// A client shows its token again with each further connection: for a transfer, and after a cut. So
// that its session outlives a change of the token, a former one goes on to lead to sessions that
// there are, whose ids are unguessable, and to nothing else.
struct Tokens {
  std::string current;  // empty: none is asked for
  std::vector<std::string> former;
};

enum class Access { kNone, kOpenSessions, kAll };

// What a connection may do that has shown this token.
Access AccessOf(const Tokens& tokens, absl::string_view shown);

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_TOKENS_H_
