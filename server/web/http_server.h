// HTTP/1.1 on listening sockets, by Boost.Beast.
#ifndef CHX_SERVER_WEB_HTTP_SERVER_H_
#define CHX_SERVER_WEB_HTTP_SERVER_H_

#include <memory>
#include <string>

#include "server/web/access.h"
#include "server/web/pages.h"

namespace chx::server {

// One thread does everything, so that slow peers cost a connection each and nothing else. Header,
// body, time and number of connections are bounded.
class HttpServer {
 public:
  static constexpr size_t kMaxConnections = 64;  // the oldest makes room
  static constexpr int kMaxHeaderBytes = 8 << 10;
  static constexpr int kMaxBodyBytes = 4 << 10;
  static constexpr int kRequestSeconds = 10;  // for all of a request, and for its response
  static constexpr int kIdleSeconds = 60;     // between two requests

  // `pages` outlives the server.
  explicit HttpServer(Pages* pages);
  ~HttpServer();

  // For listeners that want it. False: certificate and key, PEM, cannot be used.
  bool UseTls(const std::string& certificate, const std::string& key);
  // Takes the socket.
  void Listen(int socket, WebListener listener);
  // Returns when the daemon does not answer any more.
  void Run();

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_WEB_HTTP_SERVER_H_
