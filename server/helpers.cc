#include "server/helpers.h"

#include "absl/strings/string_view.h"
#include "server/admin/admin.h"
#include "server/front/front.h"
#include "server/web/web.h"

namespace chx::server {

absl::optional<int> RunHelper(int argc, char** argv) {
  if (argc != 2) return absl::nullopt;
  const absl::string_view argument = argv[1];
  if (argument == kFrontArgument) return RunFront();
  if (argument == kAdminArgument) return RunAdmin();
  if (argument == kWebArgument) return RunWeb();
  return absl::nullopt;
}

}  // namespace chx::server
