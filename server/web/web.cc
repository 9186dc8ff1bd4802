#include "server/web/web.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "server/log/log.h"
#include "server/process/child.h"
#include "server/process/confine.h"
#include "server/process/library_log.h"
#include "server/process/packets.h"
#include "server/web/control.pb.h"
#include "server/web/daemon_link.h"
#include "server/web/http_server.h"
#include "server/web/pages.h"

namespace chx::server {
namespace {

constexpr size_t kMemoryBytes = 64 << 20;
constexpr int kNiceness = 5;  // whoever floods it, sessions come first
// The daemon answers at once; one that does not is stopped.
constexpr int kPatienceSeconds = 30;

WebListener ListenerOf(const web::Settings::Listener& settings) {
  WebListener listener;
  listener.metrics = settings.metrics();
  listener.tls = settings.tls();
  listener.open = settings.open();
  listener.host = settings.host();
  return listener;
}

int Serve(const web::Settings& settings, const std::vector<int>& sockets) {
  const timeval patience = {kPatienceSeconds, 0};
  setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  DaemonLink daemon(sockets[0]);
  WebGuests guests;
  guests.everybody = settings.everybody();
  guests.token_hashes.assign(settings.token_hashes().begin(), settings.token_hashes().end());
  WebAccess access(std::move(guests));
  Pages pages(&daemon, &access);
  HttpServer server(&pages);
  if (!settings.tls_cert().empty() && !server.UseTls(settings.tls_cert(), settings.tls_key())) {
    Log(LogLevel::kError, "the web process cannot use the certificate");
    return 1;
  }
  for (int i = 0; i < settings.listeners_size(); ++i) {
    server.Listen(sockets[i + 1], ListenerOf(settings.listeners(i)));
  }
  server.Run();
  return 0;
}

}  // namespace

int RunWeb() {
  ConfigureLogFromEnvironment("chxd-web");
  RouteLibraryLogs();
  ConfineProcess(kMemoryBytes);
  setpriority(PRIO_PROCESS, 0, kNiceness);
  web::Settings settings;
  std::vector<int> sockets;
  if (ReceivePacket(kControlDescriptor, &settings, &sockets) != PacketResult::kPacket ||
      sockets.size() != static_cast<size_t>(settings.listeners_size()) + 1) {
    return 1;
  }
  // Asio and the JSON library report by exceptions what is the end of this process: no memory.
  try {
    return Serve(settings, sockets);
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "the web process ends", {{"reason", error.what()}});
    return 1;
  }
}

}  // namespace chx::server
