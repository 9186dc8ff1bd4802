// How a session is opened.
#ifndef CHX_CLIENT_CONNECT_OPTIONS_H_
#define CHX_CLIENT_CONNECT_OPTIONS_H_

#include <chrono>
#include <string>

#include "absl/types/optional.h"

namespace chx {

// For Session::Connect. The defaults suit a daemon behind a Unix socket.
struct ConnectOptions {
  // Shown to the daemon's administrator.
  std::string client_name = "chx";
  // What a daemon that was started with --token-file or --tenants expects.
  std::string token;
  // In its place a file that has it, read again for each connection: who issues tokens for a short
  // time, as Kubernetes does, writes the next one there.
  std::string token_file;
  // Certificates in PEM that the daemon's is checked against; empty: plaintext.
  std::string tls_roots;
  // The client's own certificate chain and its key, in PEM, for a daemon that was started with
  // --tls-client-ca; empty: none.
  std::string tls_cert;
  std::string tls_key;
  // The session's name. If there is one of that name, this process takes it up, with what was saved
  // in it (client/saved_arrays.h), and whoever had it has lost it. Empty: a new session.
  std::string session;
  // For how long a session whose connection was cut is taken up again; not set: as long as the
  // daemon keeps it, or for half a second if nobody listens there any more.
  absl::optional<std::chrono::milliseconds> reconnect;
};

}  // namespace chx

#endif  // CHX_CLIENT_CONNECT_OPTIONS_H_
