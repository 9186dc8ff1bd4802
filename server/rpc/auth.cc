#include "server/rpc/auth.h"

namespace chx {
namespace {

// Takes the same time wherever the first difference is.
bool Equal(absl::string_view a, absl::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? 0 : b[i % b.size()]));
  }
  return difference == 0;
}

}  // namespace

grpc::Status Authorizer::Check(const grpc::ServerContextBase& context) const {
  if (token_.empty()) return grpc::Status::OK;
  constexpr absl::string_view kPrefix = "Bearer ";
  const auto range = context.client_metadata().equal_range("authorization");
  for (auto it = range.first; it != range.second; ++it) {
    const absl::string_view value(it->second.data(), it->second.size());
    if (value.substr(0, kPrefix.size()) == kPrefix &&
        Equal(value.substr(kPrefix.size()), token_)) {
      return grpc::Status::OK;
    }
  }
  return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "this daemon expects a valid token");
}

}  // namespace chx
