#include "server/rpc/segment_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "proto/descriptors.h"
#include "proto/segment_socket.h"
#include "server/rpc/local_socket.h"

namespace chx::server {
namespace {

constexpr size_t kMaxConnections = 64;

// A client that does not read gets nothing. `fd` may be -1.
void Send(int connection, const SegmentReply& reply, int fd) {
  SendWithDescriptors(connection, {reinterpret_cast<const char*>(&reply), sizeof(reply)},
                      absl::MakeConstSpan(&fd, fd >= 0 ? 1 : 0), MSG_DONTWAIT);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentServer>> SegmentServer::Start(
    const std::vector<std::string>& sockets, SessionManager* manager, const SocketUsers& users) {
  std::unique_ptr<SegmentServer> server(new SegmentServer(manager, users));
  for (const std::string& socket : sockets) {
    const std::string path = SegmentSocketOf(socket);
    const absl::StatusOr<int> listener = ListenLocally(path, SOCK_SEQPACKET, users);
    if (!listener.ok()) return listener.status();
    server->listeners_.push_back(*listener);
    server->paths_.push_back(path);
  }
  if (pipe2(server->stop_, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe");
  server->thread_ = std::thread([self = server.get()] { self->Loop(); });
  return server;
}

SegmentServer::~SegmentServer() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_[0] >= 0) close(stop_[0]);
  for (const Connection& connection : connections_) close(connection.socket);
  for (int listener : listeners_) close(listener);
  for (const std::string& path : paths_) unlink(path.c_str());
}

void SegmentServer::Loop() {
  std::vector<pollfd> ready;
  for (;;) {
    ready.clear();
    ready.push_back({stop_[0], POLLIN, 0});
    for (int listener : listeners_) ready.push_back({listener, POLLIN, 0});
    for (const Connection& each : connections_) ready.push_back({each.socket, POLLIN, 0});
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    if (ready[0].revents != 0) return;
    // Connections first: accepting may drop the oldest, and its number may be used again.
    const size_t first = 1 + listeners_.size();
    const std::vector<Connection> asked = connections_;
    for (size_t i = first; i < ready.size(); ++i) {
      if (ready[i].revents != 0) Answer(asked[i - first]);
    }
    for (size_t i = 1; i < first; ++i) {
      if (ready[i].revents != 0) Accept(ready[i].fd);
    }
  }
}

void SegmentServer::Accept(int listener) {
  int connection = -1;
  uid_t uid = 0;
  Accepted accepted = AcceptLocal(listener, users_, SOCK_NONBLOCK, &connection, &uid);
  if (accepted == Accepted::kNoDescriptor && !connections_.empty()) {
    DropOldest();
    accepted = AcceptLocal(listener, users_, SOCK_NONBLOCK, &connection, &uid);
  }
  if (accepted == Accepted::kNoDescriptor) {
    // Its client copies instead.
    spare_.Give();
    if (AcceptLocal(listener, users_, SOCK_NONBLOCK, &connection, &uid) == Accepted::kConnection) {
      close(connection);
    }
    spare_.Refill();
    return;
  }
  if (accepted == Accepted::kNobody) return;
  if (connections_.size() >= kMaxConnections) DropOldest();
  connections_.push_back({connection, uid});
}

void SegmentServer::DropOldest() {
  close(connections_.front().socket);
  connections_.erase(connections_.begin());
}

void SegmentServer::Answer(const Connection& from) {
  const int connection = from.socket;
  // One packet more than whole would be no request. Descriptors that come along are refused: there
  // is no room for them.
  char packet[sizeof(SegmentRequest) + 1];
  const ssize_t size = recv(connection, packet, sizeof(packet), MSG_DONTWAIT);
  SegmentRequest request;
  if (size == sizeof(request)) {
    std::memcpy(&request, packet, sizeof(request));
    SegmentReply reply = {kSegmentMagic, 0, 0};
    int fd = -1;
    const SessionRecordPtr record =
        request.magic != kSegmentMagic
            ? nullptr
            : manager_->Find(std::string(request.session_id, sizeof(request.session_id)));
    if (record != nullptr && record->owner.uid == from.uid) {
      int64_t bytes = 0;
      fd = record->session->segments().Duplicate(request.segment, &bytes).value_or(-1);
      reply.found = fd >= 0 ? 1 : 0;
      reply.bytes = static_cast<uint64_t>(bytes);
    }
    Send(connection, reply, fd);
    if (fd >= 0) close(fd);
  }
  close(connection);
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (it->socket != connection) continue;
    connections_.erase(it);
    break;
  }
}

}  // namespace chx::server
