#include "server/state/session_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "ops/error.h"
#include "server/log/log.h"

namespace chx::server {
namespace {

constexpr absl::string_view kNewest = ".session";
constexpr absl::string_view kOlder = ".older";
constexpr uint64_t kMaxNumber = uint64_t{1} << 62;

std::string NewestOf(const std::string& key) { return absl::StrCat(key, kNewest); }

std::string OlderOf(const std::string& key, uint64_t number) {
  return absl::StrCat(key, ".", number, kOlder);
}

// False: it is no such name.
bool ParseOlder(const std::string& name, std::string* key, uint64_t* number) {
  const absl::string_view stem = absl::StripSuffix(name, kOlder);
  const size_t dot = stem.rfind('.');
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(stem.substr(dot + 1), number)) {
    return false;
  }
  *key = std::string(stem.substr(0, dot));
  return *number > 0 && *number < kMaxNumber && name == OlderOf(*key, *number);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SessionFiles::Load() {
  CHX_ASSIGN_OR_RETURN(std::vector<std::string> keys, folder_.List(kNewest));
  for (std::string& name : keys) name.resize(name.size() - kNewest.size());
  CHX_ASSIGN_OR_RETURN(const std::vector<std::string> others, folder_.List(kOlder));
  std::map<std::string, std::deque<uint64_t>> older;
  int removed = 0;
  for (const std::string& name : others) {
    std::string key;
    uint64_t number = 0;
    if (!ParseOlder(name, &key, &number)) continue;
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) {
      older[key].push_back(number);
    } else {
      folder_.Remove(name);
      ++removed;
    }
  }
  for (auto& each : older) std::sort(each.second.begin(), each.second.end());
  if (removed > 0) {
    Log(LogLevel::kInfo, "snapshots of ended sessions removed", {{"files", removed}});
  }
  MutexLock lock(&mutex_);
  older_ = std::move(older);
  return keys;
}

std::vector<std::string> SessionFiles::Of(const std::string& key) {
  std::vector<std::string> names = {NewestOf(key)};
  MutexLock lock(&mutex_);
  const auto it = older_.find(key);
  if (it == older_.end()) return names;
  for (auto number = it->second.rbegin(); number != it->second.rend(); ++number) {
    names.push_back(OlderOf(key, *number));
  }
  return names;
}

absl::Status SessionFiles::Write(const std::string& key,
                                 absl::FunctionRef<absl::Status(int fd)> write) {
  CHX_RETURN_IF_ERROR(folder_.Replace(NewestOf(key), [&](int fd) -> absl::Status {
    CHX_RETURN_IF_ERROR(write(fd));
    if (keep_ > 1) KeepFormer(key);
    return absl::OkStatus();
  }));
  RemoveAllBut(keep_ - 1, key);
  return absl::OkStatus();
}

void SessionFiles::KeepFormer(const std::string& key) {
  const std::string newest = NewestOf(key);
  uint64_t last = 0;
  {
    MutexLock lock(&mutex_);
    const auto it = older_.find(key);
    if (it != older_.end()) last = it->second.back();
  }
  // A daemon was killed, or has failed, between the link and the new file.
  if (last != 0 && folder_.AreSame(newest, OlderOf(key, last))) return;
  const absl::Status linked = folder_.Link(newest, OlderOf(key, last + 1));
  if (linked.ok()) {
    MutexLock lock(&mutex_);
    older_[key].push_back(last + 1);
  } else if (!absl::IsNotFound(linked)) {
    // The new one is worth more than the former. Not all file systems have links.
    static auto* const limit = new LogLimit;
    Log(limit, LogLevel::kWarning, "former snapshot not kept",
        {{"file", absl::StrCat(folder_.path(), "/", newest)}, {"reason", linked.message()}});
  }
}

absl::Status SessionFiles::ReturnTo(const std::string& key, const std::string& name) {
  const std::vector<std::string> names = Of(key);
  const auto chosen = std::find(names.begin(), names.end(), name);
  if (chosen == names.begin()) return absl::OkStatus();
  if (chosen == names.end()) return absl::NotFoundError("the session has no such snapshot");
  CHX_RETURN_IF_ERROR(folder_.Rename(name, names[0]));
  for (auto each = names.begin() + 1; each != chosen; ++each) folder_.Remove(*each);
  MutexLock lock(&mutex_);
  const auto it = older_.find(key);
  it->second.resize(static_cast<size_t>(names.end() - chosen) - 1);
  if (it->second.empty()) older_.erase(it);
  return absl::OkStatus();
}

void SessionFiles::Remove(const std::string& key) {
  folder_.Remove(NewestOf(key));  // first: the session has ended, whatever else is still there
  RemoveAllBut(0, key);
}

void SessionFiles::RemoveAllBut(size_t count, const std::string& key) {
  std::vector<uint64_t> removed;
  {
    MutexLock lock(&mutex_);
    const auto it = older_.find(key);
    if (it == older_.end()) return;
    for (; it->second.size() > count; it->second.pop_front()) removed.push_back(it->second.front());
    if (it->second.empty()) older_.erase(it);
  }
  for (uint64_t number : removed) folder_.Remove(OlderOf(key, number));
}

}  // namespace chx::server
