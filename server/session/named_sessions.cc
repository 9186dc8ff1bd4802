#include "server/session/named_sessions.h"

#include "absl/strings/str_cat.h"
#include "ops/error.h"

namespace chx::server {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr size_t kMaxGone = 1024;
constexpr size_t kKeyPrefixDigits = 16;

}  // namespace

absl::Status CheckSessionName(absl::string_view name) {
  bool valid = !name.empty() && name.size() <= kMaxNameBytes;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    valid = valid && (plain || absl::string_view("-_./:@+").find(c) != absl::string_view::npos);
  }
  if (valid) return absl::OkStatus();
  return ValueError("[connect] expects a session's name of 1 to ", kMaxNameBytes,
                    " letters, digits and -_./:@+");
}

std::string KeyPrefix(const SessionName& name) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : absl::StrCat(name.first, "\n", name.second)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

std::string NamedSessions::Find(const SessionName& name) const {
  auto it = ids_.find(name);
  return it == ids_.end() ? std::string() : it->second;
}

void NamedSessions::Erase(const SessionName& name, const std::string& id) {
  auto it = ids_.find(name);
  if (it != ids_.end() && it->second == id) ids_.erase(it);
}

void NamedSessions::KeepUnreadable(const std::string& key, absl::Status why) {
  kept_[key] = {{}, key.substr(0, kKeyPrefixDigits), [why = std::move(why)] { return why; }};
}

NamedSessions::Restorer NamedSessions::KeptById(const std::string& id,
                                                const std::string& tenant) const {
  auto it = kept_.find(id);
  return it != kept_.end() && it->second.name.first == tenant ? it->second.restore : nullptr;
}

NamedSessions::Restorer NamedSessions::KeptByName(const SessionName& name) const {
  const std::string prefix = KeyPrefix(name);
  for (const auto& [id, kept] : kept_) {
    if (kept.name == name || kept.key_prefix == prefix) return kept.restore;
  }
  return nullptr;
}

void NamedSessions::Retire(const std::string& id, absl::Status why) {
  if (!gone_.emplace(id, std::move(why)).second) return;
  order_.push_back(id);
  if (order_.size() <= kMaxGone) return;
  gone_.erase(order_.front());
  order_.pop_front();
}

absl::Status NamedSessions::WhyGone(const std::string& id) const {
  auto it = gone_.find(id);
  return it == gone_.end() ? absl::OkStatus() : it->second;
}

}  // namespace chx::server
