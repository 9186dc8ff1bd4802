#include "server/web/pages.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/log/log.h"
#include "server/web/assets.h"

namespace chx::server {
namespace {

constexpr char kHtml[] = "text/html; charset=utf-8";
// families.h has it, too; that is the daemon's.
constexpr char kPrometheusType[] = "text/plain; version=0.0.4; charset=utf-8";

WebResponse Text(int status, const std::string& text) {
  WebResponse response;
  response.status = status;
  response.body = absl::StrCat(text, "\n");
  return response;
}

WebResponse Asset(absl::string_view body, const char* type, int status = 200) {
  WebResponse response;
  response.status = status;
  response.type = type;
  response.body = std::string(body);
  return response;
}

WebResponse SeeOther(const char* path) {
  WebResponse response = Text(303, "see other");
  response.headers.emplace_back("Location", path);
  return response;
}

WebResponse WrongMethod(const char* allowed) {
  WebResponse response = Text(405, absl::StrCat("expects ", allowed));
  response.headers.emplace_back("Allow", allowed);
  return response;
}

std::string CookieOf(const WebListener& listener, const std::string& id, int64_t seconds) {
  return absl::StrCat(kLoginCookie, "=", id,
                      "; Path=/; HttpOnly; SameSite=Strict; Max-Age=", seconds,
                      listener.tls ? "; Secure" : "");
}

bool IsRead(const WebRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

void LogWrongToken() {
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kWarning, "client refused", {{"reason", "no valid token"}});
}

}  // namespace

const std::vector<std::pair<std::string, std::string>>& SecurityHeaders() {
  static const auto* const headers = new std::vector<std::pair<std::string, std::string>>{
      {"Cache-Control", "no-store"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
       "'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      // Not "no-referrer": browsers would then send the forms with "Origin: null".
      {"Referrer-Policy", "same-origin"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"}};
  return *headers;
}

WebResponse Pages::Answer(const WebListener& listener, const WebRequest& request) {
  // Whoever shows the token is no page of another site.
  const bool shown = !request.authorization.empty() && access_.HasToken(request);
  if (!shown && !IsOurHost(listener, request.host)) {
    return Text(421, "expects the name or an address of this listener as Host");
  }
  if (!IsOurOrigin(listener, request.host, request.origin)) {
    return Text(403, "expects requests of its own pages only");
  }
  if (request.path == "/healthz") {
    return IsRead(request) ? Health() : WrongMethod("GET, HEAD");
  }
  return listener.metrics ? Metrics(listener, request) : StatusPage(listener, request);
}

WebResponse Pages::OfDaemon(const std::string& text, const char* type) {
  return text.empty() ? Text(503, "the daemon does not answer") : Asset(text, type);
}

WebResponse Pages::Health() {
  return daemon_.Serving() ? Text(200, "serving") : Text(503, "draining");
}

WebResponse Pages::Metrics(const WebListener& listener, const WebRequest& request) {
  if (request.path != "/metrics") return Text(404, "there are /metrics and /healthz");
  if (!IsRead(request)) return WrongMethod("GET, HEAD");
  if (!listener.open && !access_.HasToken(request)) {
    if (!request.authorization.empty()) LogWrongToken();
    WebResponse response = Text(401, "expects the daemon's token: Authorization: Bearer TOKEN");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  return OfDaemon(daemon_.Metrics(), kPrometheusType);
}

WebResponse Pages::StatusPage(const WebListener& listener, const WebRequest& request) {
  const std::string& path = request.path;
  if (path == "/login" && request.method == "POST") return LogIn(listener, request);
  if (path == "/logout" && request.method == "POST") return LogOut(listener, request);
  if (!IsRead(request)) {
    return WrongMethod(path == "/login"    ? "GET, HEAD, POST"
                       : path == "/logout" ? "POST"
                                           : "GET, HEAD");
  }
  if (path == "/style.css") return Asset(kStyleCss, "text/css; charset=utf-8");
  if (path == "/status.js") return Asset(kStatusJs, "text/javascript; charset=utf-8");
  if (path == "/icon.svg") return Asset(kIconSvg, "image/svg+xml");
  if (path == "/login") return Asset(kLoginHtml, kHtml);
  if (path != "/" && path != "/status.json") return Text(404, "there is no such page");
  if (!access_.MaySee(request, WebAccess::Clock::now())) {
    return path == "/" ? SeeOther("/login") : Text(401, "expects a login or the daemon's token");
  }
  return path == "/" ? Asset(kIndexHtml, kHtml)
                     : OfDaemon(daemon_.Status(), "application/json; charset=utf-8");
}

WebResponse Pages::LogIn(const WebListener& listener, const WebRequest& request) {
  const std::string id = access_.LogIn(FormField(request.body, "token"), WebAccess::Clock::now());
  if (id.empty()) {
    LogWrongToken();
    constexpr char kWrong[] = "<p role=\"alert\">This is not the daemon's token.</p>";
    return Asset(absl::StrReplaceAll(kLoginHtml, {{"<!--message-->", kWrong}}), kHtml, 401);
  }
  WebResponse response = SeeOther("/");
  const int64_t seconds = std::chrono::seconds(WebAccess::kLoginLasts).count();
  response.headers.emplace_back("Set-Cookie", CookieOf(listener, id, seconds));
  return response;
}

WebResponse Pages::LogOut(const WebListener& listener, const WebRequest& request) {
  access_.LogOut(request);
  WebResponse response = SeeOther("/login");
  response.headers.emplace_back("Set-Cookie", CookieOf(listener, "", 0));
  return response;
}

}  // namespace chx::server
