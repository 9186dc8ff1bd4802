#include "server/sharing/capabilities.h"

#include <openssl/sha.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "ops/error.h"

namespace chx::server {
namespace {

constexpr absl::string_view kPrefix = "chx-cap:";
constexpr size_t kKeyBytes = 16;

std::string HashOf(absl::string_view capability) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(capability.data()), capability.size(),
         reinterpret_cast<unsigned char*>(&hash[0]));
  return hash;
}

absl::StatusOr<std::string> NewKey() {
  char key[kKeyBytes];
  if (getrandom(key, sizeof(key), 0) != static_cast<ssize_t>(sizeof(key))) {
    return ChainerxError("[share] the kernel gave no random bytes");
  }
  return absl::StrCat(kPrefix, absl::WebSafeBase64Escape(absl::string_view(key, sizeof(key))));
}

absl::Status NoSuchCapability(absl::string_view op) {
  return MakeError(ErrorKind::kContext,
                   absl::StrCat("[", op,
                                "] expects a capability that is valid here, got one that never "
                                "was, has been revoked, has expired, or is for another tenant"));
}

absl::Status Revoked() { return MakeError(ErrorKind::kContext, "the capability was revoked"); }

absl::Status OwnerGone() {
  return MakeError(ErrorKind::kContext,
                   "the session that shared this array has ended, and its memory with it");
}

}  // namespace

absl::StatusOr<std::string> Capabilities::New(const Sharer& owner, SharedArray array,
                                              const CapabilityTerms& terms) {
  CHX_RETURN_IF_ERROR(CheckSharingAllowed("share", owner));
  if (terms.expires <= absl::Now()) return ValueError("[share] expects expires in the future");
  CHX_ASSIGN_OR_RETURN(std::string capability, NewKey());
  Entry entry;
  entry.owner = owner.number;
  entry.owner_tenant = owner.tenant->name;
  entry.terms = terms;
  if (terms.tenant.empty()) entry.terms.tenant = owner.tenant->name;
  CHX_ASSIGN_OR_RETURN(entry.grant,
                       Grant::New(owner, std::move(array), terms.write, terms.expires));
  MutexLock lock(&mutex_);
  int& count = counts_[owner.number];
  if (count >= kMaxOfSession) {
    return MemoryError("[share] the session has given ", kMaxOfSession,
                       " capabilities, which is the limit: revoke some");
  }
  ++count;
  next_expiry_ = std::min(next_expiry_, terms.expires);
  by_hash_.emplace(HashOf(capability), std::move(entry));
  return capability;
}

absl::StatusOr<OpenedArray> Capabilities::Open(const Sharer& holder, absl::string_view capability,
                                               bool copy) {
  CHX_RETURN_IF_ERROR(CheckSharingAllowed("open", holder));
  if (!absl::StartsWith(capability, kPrefix)) {
    return ValueError("[open] expects a capability, which begins with ", kPrefix);
  }
  MutexLock lock(&mutex_);
  auto it = by_hash_.find(HashOf(capability));
  if (it == by_hash_.end()) return NoSuchCapability("open");
  const Entry& entry = it->second;
  const bool allowed = entry.terms.tenant == "*" || entry.terms.tenant == holder.tenant->name;
  if (!allowed || entry.terms.expires <= absl::Now()) return NoSuchCapability("open");
  return entry.grant->Open(holder, copy);
}

absl::Status Capabilities::Revoke(const Sharer& sharer, absl::string_view capability) {
  Ended ended;
  MutexLock lock(&mutex_);
  auto it = by_hash_.find(HashOf(capability));
  if (it == by_hash_.end()) return NoSuchCapability("revoke");
  Entry& entry = it->second;
  if (entry.owner == 0 ? entry.owner_tenant != sharer.tenant->name : entry.owner != sharer.number) {
    return MakeError(ErrorKind::kContext,
                     "[revoke] expects a capability that this session has given");
  }
  entry.grant->End(Revoked());
  ended.push_back(std::move(entry.grant));
  Forget(entry.owner);
  by_hash_.erase(it);
  return absl::OkStatus();
}

void Capabilities::Forget(uint64_t owner) {
  auto count = counts_.find(owner);
  if (count != counts_.end() && --count->second == 0) counts_.erase(count);
}

std::shared_ptr<void> Capabilities::TakeExpired(absl::Time now) {
  MutexLock lock(&mutex_);
  if (now < next_expiry_) return nullptr;
  next_expiry_ = absl::InfiniteFuture();
  auto ended = std::make_shared<Ended>();
  for (auto it = by_hash_.begin(); it != by_hash_.end();) {
    const auto here = it++;
    Entry& entry = here->second;
    if (entry.terms.expires > now) {
      next_expiry_ = std::min(next_expiry_, entry.terms.expires);
      continue;
    }
    entry.grant->End(MakeError(ErrorKind::kContext, "the capability has expired"));
    ended->push_back(std::move(entry.grant));
    Forget(entry.owner);
    by_hash_.erase(here);
  }
  return ended;
}

void Capabilities::Leave(uint64_t number) {
  Ended ended;
  MutexLock lock(&mutex_);
  if (counts_.erase(number) == 0) return;
  for (auto it = by_hash_.begin(); it != by_hash_.end();) {
    const auto here = it++;
    Entry& entry = here->second;
    if (entry.owner != number) continue;
    entry.owner = 0;
    if (entry.terms.keep) continue;
    entry.grant->End(OwnerGone());
    ended.push_back(std::move(entry.grant));
    by_hash_.erase(here);
  }
}

size_t Capabilities::size() {
  MutexLock lock(&mutex_);
  return by_hash_.size();
}

}  // namespace chx::server
