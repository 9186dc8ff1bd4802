#include "server/observability/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace chx::server {
namespace {

// The fields of /proc/self/stat behind the program's name, which may have spaces: the first one is
// number 3 of proc(5).
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t end = line.rfind(") ");
  if (end == std::string::npos) return {};
  return absl::StrSplit(line.substr(end + 2), ' ');
}

double Field(const std::vector<std::string>& fields, size_t number) {
  double value = 0;
  if (number - 3 < fields.size()) static_cast<void>(absl::SimpleAtod(fields[number - 3], &value));
  return value;
}

// Seconds since 1970.
double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

int64_t CountDescriptors() {
  const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc/self/fd"));
  if (folder == nullptr) return 0;
  int64_t count = -3;  // ".", "..", and the folder itself
  while (readdir(folder.get()) != nullptr) ++count;
  return count;
}

}  // namespace

ProcessStats ReadProcessStats() {
  const std::vector<std::string> fields = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessStats stats;
  stats.cpu_seconds = (Field(fields, 14) + Field(fields, 15)) / ticks;
  stats.threads = static_cast<int64_t>(Field(fields, 20));
  stats.start_time = BootTime() + Field(fields, 22) / ticks;
  stats.resident_bytes = static_cast<int64_t>(Field(fields, 24)) * sysconf(_SC_PAGESIZE);
  stats.open_descriptors = CountDescriptors();
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    stats.max_descriptors = static_cast<int64_t>(limit.rlim_cur);
  }
  return stats;
}

}  // namespace chx::server
