// The daemon's certificate, key and token, and its tenants: read from their files, and again when
// those change.
#ifndef CHX_SERVER_CREDENTIALS_H_
#define CHX_SERVER_CREDENTIALS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "server/tenancy/tenant.h"

namespace chx::server {

// Each may be empty: there is none.
struct CredentialFiles {
  std::string tls_cert, tls_key, token;
  std::string tenants;    // YAML (tenants_file.h)
  std::string client_ca;  // PEM
  std::string jwks;       // JSON (service_token.h)

  std::vector<std::string> All() const {
    return {tls_cert, tls_key, token, tenants, client_ca, jwks};
  }
};

struct Credentials {
  std::string tls_cert, tls_key;  // PEM
  std::string token;
  std::string tenants_text;
  std::vector<Tenant> tenants;  // what is in it; none: everybody is the same
  std::string client_ca;
  std::string service_keys;
  std::string warning;  // what is right, but will be of no use to clients

  bool operator==(const Credentials& other) const {
    return tls_cert == other.tls_cert && tls_key == other.tls_key && token == other.token &&
           tenants_text == other.tenants_text && client_ca == other.client_ca &&
           service_keys == other.service_keys;
  }
};

// Errors name the flag, the file, and what is wrong with it. A file that is named and empty is an
// error: what needs TLS or a token is never without because of one.
absl::StatusOr<Credentials> ReadCredentials(const CredentialFiles& files);

// The secret in the file that the flag names, of as many characters as a token.
absl::StatusOr<std::string> ReadSecret(absl::string_view flag, const std::string& path);

// Looks whether the files have changed. Used by one thread.
class CredentialWatch {
 public:
  // `current` is what has been read from them.
  CredentialWatch(CredentialFiles files, Credentials current);

  // To be called now and then. What the files hold, when that is something new and nobody has
  // written to them since the last call, so that a certificate comes with its key. An error once
  // for each way in which they are wrong. Nothing otherwise.
  absl::optional<absl::StatusOr<Credentials>> Look();
  // Reads them in any case.
  absl::StatusOr<Credentials> Read();

 private:
  // Of all files: what tells one state of them from another. Follows links, which Kubernetes
  // replaces.
  std::string State() const;

  const CredentialFiles files_;
  Credentials current_;
  std::string seen_;  // the state at the last look
  std::string read_;  // and when they were read
  std::string error_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_CREDENTIALS_H_
