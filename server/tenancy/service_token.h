// Tokens of Kubernetes' service accounts: JSON web tokens that the cluster has signed.
#ifndef CHX_SERVER_TENANCY_SERVICE_TOKEN_H_
#define CHX_SERVER_TENANCY_SERVICE_TOKEN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace chx::server {

// The keys that a cluster signs with. Immutable; thread-safe.
class ServiceKeys {
 public:
  // Whom a token has to be for, among others.
  static constexpr char kAudience[] = "chxd";
  // By how much the clocks of cluster and daemon may differ.
  static constexpr absl::Duration kLeeway = absl::Seconds(30);

  // A JSON web key set (RFC 7517), as a cluster gives it at /openid/v1/jwks. A further member
  // "issuer" is what tokens have to say as theirs. Keys that are of no use are left out; none that
  // is of use is INVALID_ARGUMENT.
  static absl::StatusOr<std::shared_ptr<const ServiceKeys>> Parse(const std::string& text);
  ~ServiceKeys();
  ServiceKeys(const ServiceKeys&) = delete;
  ServiceKeys& operator=(const ServiceKeys&) = delete;

  // Whether something shown as a token is to be verified, and not looked up.
  static bool LooksLikeOne(absl::string_view shown);
  // The account, "NAMESPACE:NAME", of a token that is signed by RS256 or ES256 with one of the
  // keys, for kAudience, and valid at `now`. UNAUTHENTICATED says what is wrong.
  absl::StatusOr<std::string> Verify(const std::string& token, absl::Time now) const;

 private:
  struct Key;
  ServiceKeys();

  std::vector<Key> keys_;
  std::string issuer_;  // empty: whichever
};

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_SERVICE_TOKEN_H_
