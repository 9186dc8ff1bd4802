#include "server/web/access.h"

#include <arpa/inet.h>
#include <sys/random.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/token.h"
#include "server/tenancy/token_hash.h"

namespace chx::server {
namespace {

constexpr size_t kIdBytes = 16;

// "HOST" of "HOST:PORT", with the brackets of an IPv6 address.
absl::string_view WithoutPort(absl::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == absl::string_view::npos || host.find(']', colon) != absl::string_view::npos) {
    return host;
  }
  return host.substr(0, colon);
}

bool IsAddress(absl::string_view host) {
  in6_addr address;
  if (absl::ConsumePrefix(&host, "[")) {
    return absl::ConsumeSuffix(&host, "]") &&
           inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
  }
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

std::string UrlDecoded(absl::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
                       absl::ascii_isxdigit(text[i + 2]);
    if (coded) {
      out += absl::HexStringToBytes(text.substr(i + 1, 2));
      i += 2;
    } else {
      out.push_back(text[i] == '+' ? ' ' : text[i]);
    }
  }
  return out;
}

}  // namespace

bool IsOurHost(const WebListener& listener, absl::string_view host) {
  if (host.empty()) return false;
  if (listener.tls) return true;
  host = WithoutPort(host);
  return IsAddress(host) || absl::EqualsIgnoreCase(host, "localhost") ||
         absl::EqualsIgnoreCase(host, listener.host);
}

bool IsOurOrigin(const WebListener& listener, absl::string_view host, absl::string_view origin) {
  return origin.empty() ||
         absl::EqualsIgnoreCase(origin, absl::StrCat(listener.tls ? "https://" : "http://", host));
}

bool WebAccess::IsGood(absl::string_view token) const {
  const std::string hash = HashToken(token);
  bool good = false;
  for (const std::string& each : guests_.token_hashes) good |= SameToken(hash, each);
  return good;
}

bool WebAccess::HasToken(const WebRequest& request) const {
  if (guests_.everybody) return true;
  absl::string_view value = request.authorization;
  return absl::StartsWithIgnoreCase(value, "bearer ") && IsGood(value.substr(7));
}

std::deque<WebAccess::Login>::const_iterator WebAccess::Find(const WebRequest& request) const {
  for (absl::string_view part : absl::StrSplit(request.cookie, ';')) {
    part = absl::StripAsciiWhitespace(part);
    if (!absl::ConsumePrefix(&part, absl::StrCat(kLoginCookie, "="))) continue;
    const auto is_it = [part](const Login& login) { return SameToken(login.id, part); };
    return std::find_if(logins_.begin(), logins_.end(), is_it);
  }
  return logins_.end();
}

bool WebAccess::MaySee(const WebRequest& request, Clock::time_point now) const {
  if (HasToken(request)) return true;
  const auto login = Find(request);
  return login != logins_.end() && now < login->ends;
}

std::string WebAccess::LogIn(absl::string_view token, Clock::time_point now) {
  if (!guests_.everybody && !IsGood(token)) return "";
  char random[kIdBytes];
  if (getrandom(random, kIdBytes, 0) != static_cast<ssize_t>(kIdBytes)) return "";
  if (logins_.size() >= kMaxLogins) logins_.pop_front();
  logins_.push_back({absl::BytesToHexString({random, kIdBytes}), now + kLoginLasts});
  return logins_.back().id;
}

void WebAccess::LogOut(const WebRequest& request) {
  const auto login = Find(request);
  if (login != logins_.end()) logins_.erase(login);
}

std::string FormField(absl::string_view form, absl::string_view name) {
  for (const absl::string_view part : absl::StrSplit(form, '&')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (field.first == name) return UrlDecoded(field.second);
  }
  return "";
}

}  // namespace chx::server
