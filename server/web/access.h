// Who may see what over HTTP, without sockets.
#ifndef CHX_SERVER_WEB_ACCESS_H_
#define CHX_SERVER_WEB_ACCESS_H_

#include <chrono>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace chx::server {

struct WebListener {
  bool metrics = false;  // else the status page
  bool tls = false;
  bool open = false;  // nobody is asked for the token
  std::string host;   // as the operator has named it
};

// The parts of a request that matter; empty where the peer sent none.
struct WebRequest {
  std::string method;
  std::string path;  // without the query
  std::string host;
  std::string origin;
  std::string authorization;
  std::string cookie;
  std::string body;
};

// Whether a request is for this listener by its Host. A page of another site that has its own name
// point to this machine (DNS rebinding) sends that name: only addresses, "localhost" and the
// listener's name are right. With TLS the browser has compared the name with the certificate.
bool IsOurHost(const WebListener& listener, absl::string_view host);
// Whether the page that sends the request, if it is one, is ours.
bool IsOurOrigin(const WebListener& listener, absl::string_view host, absl::string_view origin);

// Who may look.
struct WebGuests {
  bool everybody = false;                 // nobody is asked
  std::vector<std::string> token_hashes;  // SHA-256 of the tokens that let in

  bool operator==(const WebGuests& other) const {
    return everybody == other.everybody && token_hashes == other.token_hashes;
  }
};

// Knows the guests, and the browsers that have shown a token. Used by one thread.
class WebAccess {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::hours kLoginLasts{12};
  static constexpr size_t kMaxLogins = 64;  // the oldest makes room

  explicit WebAccess(WebGuests guests) : guests_(std::move(guests)) {}

  // "Authorization: Bearer TOKEN", as Prometheus sends it.
  bool HasToken(const WebRequest& request) const;
  // That, or the cookie of a login.
  bool MaySee(const WebRequest& request, Clock::time_point now) const;
  // The value of the cookie for a browser that has sent this token; empty: it is wrong.
  std::string LogIn(absl::string_view token, Clock::time_point now);
  void LogOut(const WebRequest& request);

 private:
  struct Login {
    std::string id;
    Clock::time_point ends;
  };
  // What the cookie says; logins_.end() if that is nobody.
  std::deque<Login>::const_iterator Find(const WebRequest& request) const;

  bool IsGood(absl::string_view token) const;

  const WebGuests guests_;
  std::deque<Login> logins_;  // oldest first
};

inline constexpr char kLoginCookie[] = "chxd_login";

// The value of a field of a form (application/x-www-form-urlencoded); empty: it has none.
std::string FormField(absl::string_view form, absl::string_view name);

}  // namespace chx::server

#endif  // CHX_SERVER_WEB_ACCESS_H_
