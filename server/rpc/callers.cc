#include "server/rpc/callers.h"

#include <utility>

#include "absl/time/clock.h"
#include "ops/error.h"

namespace chx::server {
namespace {

// What the peer shows may be a token of a service account, which is known by its signature.
absl::StatusOr<Identified> WhoIs(const Tenants& tenants, const PeerInfo& peer,
                                 const std::string& shown, const ServiceKeys* keys) {
  const absl::Time now = absl::Now();
  Identity identity;
  identity.tls_subject = peer.tls_subject;
  identity.service_account = peer.service_account;
  // Whom the front process has let in by the account, it has checked.
  if (keys != nullptr && identity.service_account.empty() && ServiceKeys::LooksLikeOne(shown)) {
    CHX_ASSIGN_OR_RETURN(identity.service_account, keys->Verify(shown, now));
  } else if (identity.service_account.empty()) {
    identity.token = shown;
  }
  if (peer.kind == PeerInfo::kUnix && !peer.admin) identity.uid = peer.uid;
  return tenants.Identify(identity, now);
}

}  // namespace

void Callers::SetTokens(Tokens tokens) {
  MutexLock lock(&mutex_);
  tokens_ = std::move(tokens);
}

void Callers::SetTenants(const Tenants* tenants) {
  MutexLock lock(&mutex_);
  tenants_ = tenants;
}

void Callers::SetServiceKeys(std::shared_ptr<const ServiceKeys> keys) {
  MutexLock lock(&mutex_);
  keys_ = std::move(keys);
}

Caller Callers::Identify(const PeerInfo& peer, const std::string& shown) const {
  Caller caller;
  const Tenants* tenants = nullptr;
  std::shared_ptr<const ServiceKeys> keys;
  {
    MutexLock lock(&mutex_);
    tenants = tenants_;
    keys = keys_;
    if (tenants == nullptr) caller.access = AccessOf(tokens_, shown);
  }
  caller.refused = absl::UnauthenticatedError("this daemon expects a valid token");
  if (tenants == nullptr) return caller;
  const absl::StatusOr<Identified> found = WhoIs(*tenants, peer, shown, keys.get());
  if (!found.ok()) {
    caller.refused = found.status();
    return caller;
  }
  caller.tenant = found->tenant;
  caller.access = found->former ? Access::kOpenSessions : Access::kAll;
  return caller;
}

std::vector<TenantPtr> Callers::tenants() const {
  MutexLock lock(&mutex_);
  return tenants_ == nullptr ? std::vector<TenantPtr>{DefaultTenant()} : tenants_->List();
}

bool Callers::asks_each_call(const PeerInfo& peer) const {
  MutexLock lock(&mutex_);
  return peer.admin && tenants_ != nullptr;
}

}  // namespace chx::server
