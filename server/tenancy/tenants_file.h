// The file that names a daemon's tenants: YAML, described in deploy/README.md.
#ifndef CHX_SERVER_TENANCY_TENANTS_FILE_H_
#define CHX_SERVER_TENANCY_TENANTS_FILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/tenancy/tenant.h"

namespace chx::server {

// The tenants that a file's text names, in its order. Shares of memory ("50%") are of `host_bytes`.
// Nothing is taken for granted: a key that is not known, a value out of range, a name, a token or
// another identity that occurs twice is INVALID_ARGUMENT, with its line.
absl::StatusOr<std::vector<Tenant>> ParseTenants(absl::string_view text, int64_t host_bytes);

}  // namespace chx::server

#endif  // CHX_SERVER_TENANCY_TENANTS_FILE_H_
