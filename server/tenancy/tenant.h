// Who may use a daemon, and how much of it.
#ifndef CHX_SERVER_TENANCY_TENANT_H_
#define CHX_SERVER_TENANCY_TENANT_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace chx::server {

// A busy device serves a higher class first.
enum class Priority { kLow, kNormal, kHigh };

// What a daemon keeps of a token: it cannot be used to get in.
struct TokenHash {
  std::string sha256;                           // 32 bytes
  absl::Time expires = absl::InfiniteFuture();  // not valid from then on
};

// What a tenant may use beside arrays, operators and gradients.
enum class Feature { kSharedNames, kSnapshots, kDataFiles };

// One entry of the tenants file. Its sessions together are held to its limits.
struct Tenant {
  std::string name;

  // Whoever shows one of these is this tenant.
  std::vector<TokenHash> tokens;
  std::set<uid_t> uids;                    // of peers on Unix sockets
  std::set<std::string> tls_subjects;      // of clients' certificates, "CN=vision,O=lab"
  std::set<std::string> service_accounts;  // of Kubernetes, "NAMESPACE:NAME"

  double weight = 1;  // its share of a busy device beside tenants of its class
  Priority priority = Priority::kNormal;
  int max_sessions = 0;                          // 0: as many as the daemon admits
  int64_t memory_bytes = 0;                      // of the host, in all; 0: the daemon's limit
  int64_t guaranteed_bytes = 0;                  // of the host, kept free for each session
  int64_t session_memory_bytes = 0;              // of one session; 0: the daemon's limit
  std::map<std::string, int64_t> device_memory;  // "cuda:0": bytes of all its sessions
  std::set<Feature> features = {Feature::kSharedNames, Feature::kSnapshots, Feature::kDataFiles};
  std::set<std::string> denied_operators;  // by name
  bool admin = false;                      // sees, limits and ends the sessions of all
  std::chrono::seconds idle_limit{0};      // how long a session may send nothing; 0: for ever
  std::chrono::seconds session_limit{0};   // how long a session may live; 0: for ever
  // How long a session with a name waits for the next client; 0: the daemon's.
  std::chrono::seconds named_session_lease{0};
};

using TenantPtr = std::shared_ptr<const Tenant>;

// Who everybody is where no tenants are named: "default", without limits but the daemon's.
TenantPtr DefaultTenant();

bool Allows(const Tenant& tenant, Feature feature);
// As the tenants file writes it: "shared_names".
absl::string_view FeatureName(Feature feature);
// PERMISSION_DENIED "[what] ..." where the tenant has not got the feature, with what to do.
absl::Status CheckAllowed(const Tenant& tenant, Feature feature, absl::string_view what);

// Whether one tenant may see, limit or end the sessions of another: each its own, an admin those of
// all. Where no tenants are named everybody is one tenant, who may.
bool MayAdminister(const Tenant& who, const Tenant& whose);
// Whether a tenant may do what concerns all of the daemon: drain it, trace its sessions.
bool MayRunDaemon(const Tenant& who);

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_TENANT_H_
