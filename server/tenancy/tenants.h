// The tenants of a daemon, and which of them a peer is.
#ifndef CHX_SERVER_TENANCY_TENANTS_H_
#define CHX_SERVER_TENANCY_TENANTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/tenancy/tenant.h"

namespace chx::server {

// What is known of a peer: by the kernel, by TLS, by a verified signature; and the token it shows.
struct Identity {
  std::string token;
  std::string service_account;  // of a verified Kubernetes token, "NAMESPACE:NAME"
  std::string tls_subject;      // of a verified certificate
  absl::optional<uid_t> uid;    // of a Unix socket's peer
};

// The SHA-256 of a token, 32 bytes. Tokens are random, not passwords: no salt, and no slow hash.
std::string HashToken(absl::string_view token);

// Thread-safe.
class Tenants {
 public:
  explicit Tenants(const std::vector<Tenant>& tenants) { Replace(tenants); }

  // What was identified before keeps what it was identified as.
  void Replace(const std::vector<Tenant>& tenants);

  // The first that is there decides: token, service account, certificate, user. A wrong token is
  // refused whatever else is known. UNAUTHENTICATED: no tenant, or a token that has expired.
  absl::StatusOr<TenantPtr> Identify(const Identity& peer, absl::Time now) const;
  std::vector<TenantPtr> List() const;

 private:
  struct Index;

  mutable Mutex mutex_;
  std::shared_ptr<const Index> index_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_TENANTS_H_
