#include "server/front/guests.h"

#include <utility>

#include "server/tenancy/token_hash.h"

namespace chx::server {

bool Guests::Admits(const std::string& shown, absl::Time now, Proof* proof) const {
  if (open) return true;
  if (shown.empty()) return !proof->tls_subject.empty();
  if (service_keys != nullptr && ServiceKeys::LooksLikeOne(shown)) {
    absl::StatusOr<std::string> account = service_keys->Verify(shown, now);
    if (!account.ok()) return false;
    proof->service_account = *std::move(account);
    return true;
  }
  const auto token = tokens.find(HashToken(shown));
  return token != tokens.end() && now < token->second;
}

}  // namespace chx::server
