// Who calls, and what a caller may do.
#ifndef CHX_SERVER_RPC_CALLERS_H_
#define CHX_SERVER_RPC_CALLERS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/rpc/peer_info.h"
#include "server/rpc/tokens.h"
#include "server/session/session_manager.h"
#include "server/tenancy/service_token.h"
#include "server/tenancy/tenants.h"

namespace chx::server {

struct Caller {
  Access access = Access::kNone;
  TenantPtr tenant = DefaultTenant();
  absl::Status refused;  // with kNone: why

  // Each session is its tenant's: others find none, whatever id they name.
  bool Owns(const SessionRecord& record) const { return record.owner.tenant->name == tenant->name; }
};

// Knows either a token, which makes everybody the same tenant, or tenants. The daemon's one;
// thread-safe.
class Callers {
 public:
  explicit Callers(Tokens tokens) : tokens_(std::move(tokens)) {}

  // For connections that come from now on.
  void SetTokens(Tokens tokens);
  // Asks these, which outlive the object, in place of tokens.
  void SetTenants(const Tenants* tenants);
  // Those whose signatures make tokens of service accounts good; null: none.
  void SetServiceKeys(std::shared_ptr<const ServiceKeys> keys);

  // By what a Hello shows, and what is known of the peer anyway.
  Caller Identify(const PeerInfo& peer, const std::string& shown) const;
  // All that are named; else the one that everybody is.
  std::vector<TenantPtr> tenants() const;
  // Who calls over the admin process's connection: each call says whose token it has come with.
  // With tenants only; else what the connection has shown counts.
  bool asks_each_call(const PeerInfo& peer) const;

 private:
  mutable Mutex mutex_;
  Tokens tokens_ ABSL_GUARDED_BY(mutex_);
  const Tenants* tenants_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<const ServiceKeys> keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace chx::server

#endif  // CHX_SERVER_RPC_CALLERS_H_
