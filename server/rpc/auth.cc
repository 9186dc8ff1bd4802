#include "server/rpc/auth.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace chx {
namespace {

// All others need the token.
constexpr absl::string_view kPublicMethods[] = {
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
};

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

// Takes the same time wherever the first difference is.
bool Equal(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

grpc::Status TokenProcessor::Process(const InputMetadata& metadata, grpc::AuthContext* context,
                                     OutputMetadata* consumed, OutputMetadata* response) {
  const auto path = metadata.find(":path");
  if (path != metadata.end() && std::find(std::begin(kPublicMethods), std::end(kPublicMethods),
                                          View(path->second)) != std::end(kPublicMethods)) {
    return grpc::Status::OK;
  }
  constexpr absl::string_view kPrefix = "Bearer ";
  const auto range = metadata.equal_range("authorization");
  for (auto it = range.first; it != range.second; ++it) {
    const absl::string_view value = View(it->second);
    if (value.substr(0, kPrefix.size()) == kPrefix && Equal(value.substr(kPrefix.size()), token_)) {
      return grpc::Status::OK;
    }
  }
  return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "this daemon expects a valid token");
}

}  // namespace chx
