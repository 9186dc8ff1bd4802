// What each path of the web process answers, without sockets.
#ifndef CHX_SERVER_WEB_PAGES_H_
#define CHX_SERVER_WEB_PAGES_H_

#include <string>
#include <utility>
#include <vector>

#include "server/web/access.h"
#include "server/web/daemon_link.h"

namespace chx::server {

struct WebResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// Headers of every response: nothing is kept, framed or loaded from elsewhere.
const std::vector<std::pair<std::string, std::string>>& SecurityHeaders();

// Used by one thread; what it is made of outlives it.
class Pages {
 public:
  Pages(DaemonLink* daemon, WebAccess* access) : daemon_(*daemon), access_(*access) {}

  WebResponse Answer(const WebListener& listener, const WebRequest& request);
  // Whether the process should end: the daemon does not answer.
  bool broken() const { return daemon_.broken(); }

 private:
  WebResponse Metrics(const WebListener& listener, const WebRequest& request);
  WebResponse StatusPage(const WebListener& listener, const WebRequest& request);
  WebResponse LogIn(const WebListener& listener, const WebRequest& request);
  WebResponse LogOut(const WebListener& listener, const WebRequest& request);
  WebResponse Health();
  WebResponse OfDaemon(const std::string& text, const char* type);

  DaemonLink& daemon_;
  WebAccess& access_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_WEB_PAGES_H_
