// The tenants of a daemon, and which of them a peer is.
#ifndef CHX_SERVER_TENANCY_TENANTS_H_
#define CHX_SERVER_TENANCY_TENANTS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/tenancy/tenant.h"
#include "server/tenancy/token_hash.h"

namespace chx::server {

// What is known of a peer: by the kernel, by TLS, by a verified signature; and the token it shows.
struct Identity {
  std::string token;
  std::string service_account;  // of a verified Kubernetes token, "NAMESPACE:NAME"
  std::string tls_subject;      // of a verified certificate
  absl::optional<uid_t> uid;    // of a Unix socket's peer
};

// Who a peer is. `former`: it has shown what its tenant no longer has, or what has expired: that
// leads to sessions of before, and to nothing else.
struct Identified {
  TenantPtr tenant;
  bool former = false;
};

// Thread-safe.
class Tenants {
 public:
  // For how long after its end a token is former without anybody having looked (Forget).
  static constexpr absl::Duration kGrace = absl::Seconds(5);

  explicit Tenants(const std::vector<Tenant>& tenants) { Replace(tenants, absl::Now()); }

  // What was identified before keeps what it was identified as. Identities that are no longer named
  // become former ones.
  void Replace(const std::vector<Tenant>& tenants, absl::Time now);
  // Forgets former identities for which `needed` says that no session of the tenant is left from
  // before the time, and remembers those tokens that have expired since the last call for which it
  // says otherwise. To be called now and then. True: Tokens() is another.
  using Needed = std::function<bool(const std::string& tenant, absl::Time ended)>;
  bool Forget(const Needed& needed, absl::Time now);

  // The first that is there decides: token, service account, certificate, user. A wrong token is
  // refused whatever else is known. UNAUTHENTICATED: no tenant, or a token that has expired.
  absl::StatusOr<Identified> Identify(const Identity& peer, absl::Time now) const;
  std::vector<TenantPtr> List() const;
  // Those that lead anywhere, former ones with them: for who looks at peers before the daemon does.
  // `expires` is when one is refused.
  std::vector<TokenHash> Tokens() const;

 private:
  struct Entry {
    TenantPtr tenant;
    absl::Time ends;  // of a former one: when it ended
  };
  // By what is shown: "token HASH", "uid 1000". How long a lookup takes says nothing about a token,
  // whose hash nobody can choose.
  using Entries = std::map<std::string, Entry>;

  struct Index {
    std::vector<TenantPtr> tenants;
    Entries entries;
  };
  absl::StatusOr<Identified> Find(const std::string& key, absl::string_view what,
                                  absl::Time now) const;

  mutable Mutex mutex_;
  Index index_ ABSL_GUARDED_BY(mutex_);
  Entries former_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_TENANTS_H_
