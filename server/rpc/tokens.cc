#include "server/rpc/tokens.h"

#include "proto/token.h"

namespace chx::server {

Access AccessOf(const Tokens& tokens, absl::string_view shown) {
  if (tokens.current.empty() || SameToken(shown, tokens.current)) return Access::kAll;
  for (const std::string& former : tokens.former) {
    if (SameToken(shown, former)) return Access::kOpenSessions;
  }
  return Access::kNone;
}

}  // namespace chx::server
