// Who may call: one policy for every method of every service.
#ifndef CHX_SERVER_RPC_AUTH_H_
#define CHX_SERVER_RPC_AUTH_H_

#include <grpcpp/server_context.h>

#include <string>

#include "absl/strings/string_view.h"

namespace chx {

// Without a token everybody who reaches the listener may call: a Unix socket of mode 0600 lets in
// its owner only. Thread-safe.
class Authorizer {
 public:
  explicit Authorizer(std::string token) : token_(std::move(token)) {}

  // Every handler's first line. OK, or UNAUTHENTICATED without saying what was wrong. The header is
  // "authorization: Bearer TOKEN".
  grpc::Status Check(const grpc::ServerContextBase& context) const;

 private:
  const std::string token_;
};

}  // namespace chx

#endif  // CHX_SERVER_RPC_AUTH_H_
