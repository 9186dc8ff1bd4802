// Who may call: one door for every method of every service.
#ifndef CHX_SERVER_ADMIN_AUTH_H_
#define CHX_SERVER_ADMIN_AUTH_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace chx::server {

// gRPC asks it before any handler runs, at each call of each service, reflection's too. Without a
// token it is not installed, and everybody who reaches the listener may call: a Unix socket of mode
// 0600 lets in its owner only. Thread-safe.
class TokenProcessor final : public grpc::AuthMetadataProcessor {
 public:
  // The SHA-256 of each token that lets in.
  explicit TokenProcessor(absl::flat_hash_set<std::string> hashes) : hashes_(std::move(hashes)) {}

  bool IsBlocking() const override { return false; }
  // OK for "authorization: Bearer TOKEN" and for methods that everybody may call; else
  // UNAUTHENTICATED, without saying what was wrong.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const absl::flat_hash_set<std::string> hashes_;
};

// The token in "authorization: Bearer TOKEN"; empty: there is none.
std::string BearerOf(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_AUTH_H_
