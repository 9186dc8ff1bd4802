// Files that chxctl reads and writes, and where it finds the daemon.
#ifndef CHX_CLIENT_CTL_FILES_H_
#define CHX_CLIENT_CTL_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/connect_options.h"
#include "client/ctl/options.h"

namespace chx::ctl {

// --address, $CHX_SERVER, or where chxd listens by default.
std::string AddressOf(const Options& options);
// With the token of --token-file or $CHX_TOKEN, and the certificates.
absl::StatusOr<ConnectOptions> ConnectOptionsOf(const Options& options);

// INVALID_ARGUMENT: it cannot be read.
absl::StatusOr<std::string> ReadFile(const std::string& flag, const std::string& path);
// Replaces the file at once, or leaves what was there. "-": standard output.
absl::Status WriteFile(const std::string& path, const std::string& text);

}  // namespace chx::ctl

#endif  // CHX_CLIENT_CTL_FILES_H_
