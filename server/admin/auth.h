// Who may call: one door for every method of every service.
#ifndef CHX_SERVER_ADMIN_AUTH_H_
#define CHX_SERVER_ADMIN_AUTH_H_

#include <grpcpp/security/auth_metadata_processor.h>

#include <string>
#include <utility>

namespace chx::server {

// gRPC asks it before any handler runs, at each call of each service, reflection's too. Without a
// token it is not installed, and everybody who reaches the listener may call: a Unix socket of mode
// 0600 lets in its owner only. Thread-safe.
class TokenProcessor final : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenProcessor(std::string token) : token_(std::move(token)) {}

  bool IsBlocking() const override { return false; }
  // OK for "authorization: Bearer TOKEN" and for methods that everybody may call; else
  // UNAUTHENTICATED, without saying what was wrong.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const std::string token_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_ADMIN_AUTH_H_
