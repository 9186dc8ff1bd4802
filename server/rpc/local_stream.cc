#include "server/rpc/local_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <system_error>

#include "proto/frame.h"
#include "server/rpc/limits.h"
#include "server/rpc/local_socket.h"
#include "server/rpc/op_stream.h"

namespace chx {
namespace {

// As many threads as gRPC may have.
constexpr size_t kMaxConnections = 2048;
constexpr size_t kMaxSubmitBytes = kMaxBatchBytes + 4096;
constexpr size_t kMaxGreetingBytes = 4096;
constexpr int kGreetingTimeoutSeconds = 10;

// `which`: SO_RCVTIMEO or SO_SNDTIMEO.
void SetTimeout(int connection, int which, int seconds) {
  const timeval timeout = {seconds, 0};
  setsockopt(connection, SOL_SOCKET, which, &timeout, sizeof(timeout));
}

// What a client that is gone has left in the socket is not worth running: one that only lost its
// connection sends it again.
bool HungUp(int connection) {
  pollfd state = {connection, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0;
}

bool ReadSubmit(FrameReader* reader, v1::Submit* submit) {
  FrameKind kind;
  absl::string_view payload;
  return reader->Next(&kind, &payload) == FrameReader::Result::kFrame &&
         kind == FrameKind::kMessage &&
         submit->ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalStreamServer>> LocalStreamServer::Start(
    const std::vector<std::string>& sockets, SessionManager* manager) {
  std::unique_ptr<LocalStreamServer> server(new LocalStreamServer(manager));
  for (const std::string& socket : sockets) {
    const std::string path = StreamSocketOf(socket);
    const absl::StatusOr<int> listener = ListenLocally(path, SOCK_STREAM);
    if (!listener.ok()) return listener.status();
    server->listeners_.push_back(*listener);
    server->paths_.push_back(path);
  }
  if (pipe2(server->stop_, O_CLOEXEC) != 0) return absl::UnavailableError("cannot make a pipe");
  server->acceptor_ = std::thread([self = server.get()] { self->AcceptLoop(); });
  return server;
}

LocalStreamServer::~LocalStreamServer() {
  if (stop_[1] >= 0) close(stop_[1]);
  if (acceptor_.joinable()) acceptor_.join();
  // At once: clients that reconnect meanwhile should not wait here.
  for (int listener : listeners_) close(listener);
  for (const std::string& path : paths_) unlink(path.c_str());
  {
    MutexLock lock(&mutex_);
    for (int connection : connections_) shutdown(connection, SHUT_RDWR);
    while (!connections_.empty()) ended_.wait(mutex_);
  }
  if (stop_[0] >= 0) close(stop_[0]);
}

void LocalStreamServer::AcceptLoop() {
  std::vector<pollfd> ready = {{stop_[0], POLLIN, 0}};
  for (int listener : listeners_) ready.push_back({listener, POLLIN, 0});
  for (;;) {
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    if (ready[0].revents != 0) return;
    for (size_t i = 1; i < ready.size(); ++i) {
      if (ready[i].revents == 0) continue;
      const int connection = AcceptSameUser(ready[i].fd, 0);
      if (connection >= 0) Begin(connection);
    }
  }
}

void LocalStreamServer::Begin(int connection) {
  {
    MutexLock lock(&mutex_);
    if (connections_.size() >= kMaxConnections) {
      close(connection);
      return;
    }
    connections_.insert(connection);
  }
  try {
    std::thread([this, connection] { Serve(connection); }).detach();
  } catch (const std::system_error&) {  // no more threads: the client takes gRPC
    MutexLock lock(&mutex_);
    connections_.erase(connection);
    close(connection);
  }
}

void LocalStreamServer::Serve(int connection) {
  std::string buffer;
  {
    FrameReader reader(connection, kMaxGreetingBytes);
    SetTimeout(connection, SO_RCVTIMEO, kGreetingTimeoutSeconds);
    v1::Submit greeting;
    if (ReadSubmit(&reader, &greeting) && !HungUp(connection)) {
      SetTimeout(connection, SO_RCVTIMEO, 0);
      reader.set_max_bytes(kMaxSubmitBytes);
      StreamTransport transport;
      transport.read = [connection, &reader](v1::Submit* submit) {
        return ReadSubmit(&reader, submit) && !HungUp(connection);
      };
      transport.send = [connection, &buffer](const v1::Event& event) {
        return WriteFrame(connection, FrameKind::kMessage, event, &buffer);
      };
      transport.cancel = [connection] { shutdown(connection, SHUT_RDWR); };
      const grpc::Status status = ServeStream(manager_, transport, &greeting);
      if (!status.ok()) {
        v1::StreamEnd end;
        end.set_code(static_cast<uint32_t>(status.error_code()));
        end.set_message(status.error_message());
        end.set_details(status.error_details());
        SetTimeout(connection, SO_SNDTIMEO, 1);  // nobody has to read it
        WriteFrame(connection, FrameKind::kEnd, end, &buffer);
      }
    }
  }
  MutexLock lock(&mutex_);
  connections_.erase(connection);
  close(connection);
  if (connections_.empty()) ended_.notify_all();
}

}  // namespace chx
