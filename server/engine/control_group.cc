#include "server/engine/control_group.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace chx::server {

void VisitControlGroups(const std::string& root, absl::string_view controller,
                        const std::function<void(int version, const std::string& folder)>& visit) {
  const std::string mounts[] = {"", absl::StrCat(root, "/sys/fs/cgroup/", controller),
                                root + "/sys/fs/cgroup"};
  // A group and all above it, below the hierarchy's mount point.
  const auto visit_all = [&](int version, std::string group) {
    for (;;) {
      while (!group.empty() && group.back() == '/') group.pop_back();
      visit(version, mounts[version] + group);
      if (group.empty()) return;
      group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
  };
  // Where the groups above are not shown, as in most containers, the mount point is the own one.
  visit(2, mounts[2]);
  visit(1, mounts[1]);
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/system.slice/chxd.service" (version 2), "9:memory:/docker/..." (version 1)
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    if (fields[1].empty()) {
      visit_all(2, fields[2]);
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      visit_all(1, fields[2]);
    }
  }
}

}  // namespace chx::server
