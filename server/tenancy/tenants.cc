#include "server/tenancy/tenants.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace chx::server {
namespace {

constexpr char kToken[] = "token ";

std::string TokenKey(absl::string_view hash) { return absl::StrCat(kToken, hash); }
std::string AccountKey(absl::string_view account) { return absl::StrCat("account ", account); }
std::string SubjectKey(absl::string_view subject) { return absl::StrCat("subject ", subject); }
std::string UidKey(uid_t uid) { return absl::StrCat("uid ", uid); }

absl::Status Expired(absl::Time ends) {
  return absl::UnauthenticatedError(absl::StrCat(
      "the token has expired on ", absl::FormatTime(absl::RFC3339_sec, ends, absl::UTCTimeZone()),
      ": ask the daemon's operator for a new one"));
}

}  // namespace

void Tenants::Replace(const std::vector<Tenant>& tenants, absl::Time now) {
  Index index;
  for (const Tenant& tenant : tenants) {
    const auto shared = std::make_shared<const Tenant>(tenant);
    index.tenants.push_back(shared);
    const Entry forever = {shared, absl::InfiniteFuture()};
    for (const TokenHash& token : tenant.tokens) {
      index.entries[TokenKey(token.sha256)] = {shared, token.expires};
    }
    for (const std::string& name : tenant.service_accounts) {
      index.entries[AccountKey(name)] = forever;
    }
    for (const std::string& name : tenant.tls_subjects) index.entries[SubjectKey(name)] = forever;
    for (const uid_t uid : tenant.uids) index.entries[UidKey(uid)] = forever;
  }
  MutexLock lock(&mutex_);
  for (auto& [key, entry] : index_.entries) {
    if (index.entries.count(key) == 0 && former_.count(key) == 0) {
      former_[key] = {std::move(entry.tenant), std::min(entry.ends, now)};
    }
  }
  for (const auto& named : index.entries) former_.erase(named.first);
  index_ = std::move(index);
}

bool Tenants::Forget(const Needed& needed, absl::Time now) {
  // Not under the lock, which connections wait for.
  Entries ended;
  {
    MutexLock lock(&mutex_);
    ended = former_;
    for (const auto& [key, entry] : index_.entries) {
      if (entry.ends <= now) ended.insert({key, entry});
    }
  }
  Entries kept;
  for (auto& [key, entry] : ended) {
    if (needed(entry.tenant->name, entry.ends)) kept.insert({key, std::move(entry)});
  }
  MutexLock lock(&mutex_);
  bool changed = false;
  for (const auto& each : ended) {
    const bool keep = kept.count(each.first) > 0;
    changed |= keep != (former_.count(each.first) > 0);
    if (!keep) former_.erase(each.first);
  }
  for (auto& each : kept) former_.insert(std::move(each));
  return changed;
}

absl::StatusOr<Identified> Tenants::Find(const std::string& key, absl::string_view what,
                                         absl::Time now) const {
  MutexLock lock(&mutex_);
  const auto found = index_.entries.find(key);
  const bool named = found != index_.entries.end();
  if (named && now < found->second.ends) return Identified{found->second.tenant, false};
  const auto former = former_.find(key);
  if (former != former_.end()) return Identified{former->second.tenant, true};
  if (!named) return absl::UnauthenticatedError(what);
  if (now < found->second.ends + kGrace) return Identified{found->second.tenant, true};
  return Expired(found->second.ends);
}

absl::StatusOr<Identified> Tenants::Identify(const Identity& peer, absl::Time now) const {
  constexpr absl::string_view kExpects = "this daemon expects a valid token";
  if (!peer.token.empty()) return Find(TokenKey(HashToken(peer.token)), kExpects, now);
  if (!peer.service_account.empty()) {
    return Find(AccountKey(peer.service_account),
                absl::StrCat("no tenant of this daemon has the service account ",
                             peer.service_account, ": ask its operator"),
                now);
  }
  absl::StatusOr<Identified> found = absl::UnauthenticatedError(kExpects);
  if (!peer.tls_subject.empty()) {
    found = Find(SubjectKey(peer.tls_subject),
                 absl::StrCat("no tenant of this daemon has the certificate's subject ",
                              peer.tls_subject, ": show a token, or ask its operator"),
                 now);
  }
  if (found.ok() || !peer.uid.has_value()) return found;
  return Find(UidKey(*peer.uid),
              absl::StrCat("no tenant of this daemon has uid ", *peer.uid,
                           ": show a token, or ask its operator"),
              now);
}

std::vector<TenantPtr> Tenants::List() const {
  MutexLock lock(&mutex_);
  return index_.tenants;
}

std::vector<TokenHash> Tenants::Tokens() const {
  std::vector<TokenHash> tokens;
  MutexLock lock(&mutex_);
  for (const auto& [key, entry] : index_.entries) {
    absl::string_view hash = key;
    if (!absl::ConsumePrefix(&hash, kToken)) continue;
    const bool former = former_.count(key) > 0;
    tokens.push_back({std::string(hash), former ? absl::InfiniteFuture() : entry.ends + kGrace});
  }
  for (const auto& each : former_) {
    absl::string_view hash = each.first;
    if (!absl::ConsumePrefix(&hash, kToken) || index_.entries.count(each.first) > 0) continue;
    tokens.push_back({std::string(hash), absl::InfiniteFuture()});
  }
  return tokens;
}

}  // namespace chx::server
