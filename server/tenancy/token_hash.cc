#include "server/tenancy/token_hash.h"

#include <openssl/sha.h>

namespace chx::server {

std::string HashToken(absl::string_view token) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         reinterpret_cast<unsigned char*>(&hash[0]));
  return hash;
}

}  // namespace chx::server
