#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/mutex.h"
#include "client/link.h"
#include "client/local_socket.h"
#include "proto/frame.h"

namespace chx {
namespace {

constexpr int kAnswerTimeoutMs = 5000;
constexpr int kPatienceMs = 200;  // how long a read waits before it asks whether to go on

// The sockets of this process, plus one; 0 is a free place. A forked child closes them, or a
// session would seem to live until the child's end. Sockets beyond the table's size stay open
// there.
std::array<std::atomic<int>, 256> open_sockets;

void CloseInForkedChildren(int socket) {
  static const bool registered = [] {
    return pthread_atfork(nullptr, nullptr, [] {
             for (std::atomic<int>& place : open_sockets) {
               const int number = place.exchange(0);
               if (number != 0) close(number - 1);
             }
           }) == 0;
  }();
  if (!registered) return;
  for (std::atomic<int>& place : open_sockets) {
    int expected = 0;
    if (place.compare_exchange_strong(expected, socket + 1)) return;
  }
}

void CloseSocket(int socket) {
  for (std::atomic<int>& place : open_sockets) {
    int expected = socket + 1;
    if (place.compare_exchange_strong(expected, 0)) break;
  }
  close(socket);
}

class LocalLink final : public Link {
 public:
  explicit LocalLink(int socket) : socket_(socket), reader_(socket, kMaxEventBytes) {
    CloseInForkedChildren(socket);
    const timeval patience = {0, kPatienceMs * 1000};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~LocalLink() override { CloseSocket(socket_); }

  // The daemon may be waiting for its own events to be read, and reads nothing itself till then: so
  // they are taken in meanwhile, unless another thread reads.
  bool Write(const v1::Submit& batch) override {
    return WriteFrame(socket_, FrameKind::kMessage, batch, &buffer_, [this] {
      pollfd ready = {socket_, POLLOUT | POLLIN, 0};
      poll(&ready, 1, 1000);
      if ((ready.revents & POLLIN) == 0) return true;
      if (!reading_.TryLock()) {
        // There is something to read, and somebody does: soon there is room, or nobody.
        pollfd room = {socket_, POLLOUT, 0};
        poll(&room, 1, 1);
        return true;
      }
      reader_.Receive();
      reading_.Unlock();
      return true;  // were it cut, the next try would tell
    });
  }

  Got Read(v1::Event* event, bool on) override {
    MutexLock lock(&reading_);
    FrameKind kind;
    absl::string_view payload;
    const FrameReader::Result result = reader_.Next(
        &kind, &payload, on ? FrameReader::OnTimeout::kWaitOn : FrameReader::OnTimeout::kReturn);
    if (result == FrameReader::Result::kNothing) return Got::kNothing;
    const int size = static_cast<int>(payload.size());
    if (result == FrameReader::Result::kFrame && kind == FrameKind::kMessage &&
        event->ParseFromArray(payload.data(), size)) {
      return Got::kEvent;
    }
    v1::StreamEnd end;
    if (result == FrameReader::Result::kFrame && kind == FrameKind::kEnd &&
        end.ParseFromArray(payload.data(), size)) {
      end_ = grpc::Status(static_cast<grpc::StatusCode>(end.code()), end.message(), end.details());
    }
    return Got::kCut;
  }

  grpc::Status Finish() override { return end_; }
  void Cancel() override { shutdown(socket_, SHUT_RDWR); }

  // Whether the daemon has taken the stream: it answers a greeting at once.
  bool IsAnswered() const {
    pollfd answer = {socket_, POLLIN, 0};
    int ready;
    do {
      ready = poll(&answer, 1, kAnswerTimeoutMs);
    } while (ready < 0 && errno == EINTR);
    char byte;
    return ready == 1 && recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }

 private:
  // The daemon's limits are its own; this is what a message can have.
  static constexpr size_t kMaxEventBytes = std::numeric_limits<int>::max();

  const int socket_;
  Mutex reading_;
  FrameReader reader_ ABSL_GUARDED_BY(reading_);
  std::string buffer_;
  grpc::Status end_{grpc::StatusCode::UNAVAILABLE, "the connection is cut"};
};

}  // namespace

std::unique_ptr<Link> OpenLocalLink(const std::string& address, const v1::Submit& greeting) {
  const std::string path = SocketPathOf(address);
  const int fd = path.empty() ? -1 : ConnectLocally(StreamSocketOf(path), SOCK_STREAM);
  if (fd < 0) return nullptr;
  auto link = std::make_unique<LocalLink>(fd);
  if (!link->Write(greeting) || !link->IsAnswered()) return nullptr;
  return link;
}

}  // namespace chx
