// Who is let in by the front process.
#ifndef CHX_SERVER_FRONT_GUESTS_H_
#define CHX_SERVER_FRONT_GUESTS_H_

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/tenancy/service_token.h"

namespace chx::server {

// What a peer has proved. Both empty: a token that the daemon knows, or nothing, where nothing is
// asked for.
struct Proof {
  std::string tls_subject;
  std::string service_account;  // "NAMESPACE:NAME"
};

// The daemon says which tenant somebody is; here they are known, or strangers.
struct Guests {
  bool open = false;  // nothing is asked for
  // By SHA-256, with the end of its time. How long a lookup takes says nothing about a token.
  absl::flat_hash_map<std::string, absl::Time> tokens;
  std::shared_ptr<const ServiceKeys> service_keys;  // null: no such tokens

  // False: a stranger. `shown` is what is in the Hello; *proof has what TLS has verified, and gets
  // what is verified here.
  bool Admits(const std::string& shown, absl::Time now, Proof* proof) const;
};

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_GUESTS_H_
