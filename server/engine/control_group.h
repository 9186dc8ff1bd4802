// The control groups that this process is in: a container's, or a systemd unit's.
#ifndef CHX_SERVER_ENGINE_CONTROL_GROUP_H_
#define CHX_SERVER_ENGINE_CONTROL_GROUP_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace chx::server {

// Calls `visit` with the folders of this process's groups of one controller ("memory", "cpu"), and
// of all groups above them; some do not exist. `version` is 1 or 2. `root`: where /proc and /sys
// are looked for.
void VisitControlGroups(const std::string& root, absl::string_view controller,
                        const std::function<void(int version, const std::string& folder)>& visit);

}  // namespace chx::server

#endif  // CHX_SERVER_ENGINE_CONTROL_GROUP_H_
