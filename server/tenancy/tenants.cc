#include "server/tenancy/tenants.h"

#include <openssl/sha.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace chx::server {

struct Tenants::Index {
  struct Token {
    TenantPtr tenant;
    absl::Time expires;
  };
  std::vector<TenantPtr> tenants;
  // By hash. How long a lookup takes says nothing about a token whose hash nobody can choose.
  absl::flat_hash_map<std::string, Token> tokens;
  absl::flat_hash_map<std::string, TenantPtr> service_accounts;
  absl::flat_hash_map<std::string, TenantPtr> tls_subjects;
  absl::flat_hash_map<uid_t, TenantPtr> uids;
};

std::string HashToken(absl::string_view token) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(&hash[0]));
  return hash;
}

void Tenants::Replace(const std::vector<Tenant>& tenants) {
  auto index = std::make_shared<Index>();
  for (const Tenant& tenant : tenants) {
    const auto shared = std::make_shared<const Tenant>(tenant);
    index->tenants.push_back(shared);
    for (const TokenHash& token : tenant.tokens) {
      index->tokens[token.sha256] = {shared, token.expires};
    }
    for (const std::string& account : tenant.service_accounts) {
      index->service_accounts[account] = shared;
    }
    for (const std::string& subject : tenant.tls_subjects) index->tls_subjects[subject] = shared;
    for (const uid_t uid : tenant.uids) index->uids[uid] = shared;
  }
  MutexLock lock(&mutex_);
  index_ = std::move(index);
}

absl::StatusOr<TenantPtr> Tenants::Identify(const Identity& peer, absl::Time now) const {
  std::shared_ptr<const Index> index;
  {
    MutexLock lock(&mutex_);
    index = index_;
  }
  if (!peer.token.empty()) {
    const auto found = index->tokens.find(HashToken(peer.token));
    if (found == index->tokens.end()) {
      return absl::UnauthenticatedError("this daemon expects a valid token");
    }
    if (found->second.expires <= now) {
      return absl::UnauthenticatedError(absl::StrCat(
          "the token has expired on ",
          absl::FormatTime(absl::RFC3339_sec, found->second.expires, absl::UTCTimeZone()),
          ": ask the daemon's operator for a new one"));
    }
    return found->second.tenant;
  }
  if (const auto found = index->service_accounts.find(peer.service_account);
      found != index->service_accounts.end()) {
    return found->second;
  }
  if (const auto found = index->tls_subjects.find(peer.tls_subject);
      found != index->tls_subjects.end()) {
    return found->second;
  }
  if (peer.uid.has_value()) {
    if (const auto found = index->uids.find(*peer.uid); found != index->uids.end()) {
      return found->second;
    }
    return absl::UnauthenticatedError(absl::StrCat("no tenant of this daemon has uid ", *peer.uid,
                                                   ": show a token, or ask its operator"));
  }
  return absl::UnauthenticatedError("this daemon expects a valid token");
}

std::vector<TenantPtr> Tenants::List() const {
  MutexLock lock(&mutex_);
  return index_->tenants;
}

}  // namespace chx::server
