#include "server/gloo/linked_context.h"

#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace chx::server {
namespace {

namespace tcp = gloo::transport::tcp;

constexpr std::chrono::seconds kPatience(5);

// One of 16 million addresses of this host's own, for as long as pairs listen.
std::string RandomLoopbackAddress() {
  uint8_t bytes[3] = {};
  while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
  }
  return "127." + std::to_string(bytes[0]) + "." + std::to_string(bytes[1]) + "." +
         std::to_string(1 + bytes[2] % 254);
}

sockaddr_in NameOf(int socket, bool peer) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  auto* const out = reinterpret_cast<sockaddr*>(&name);
  const int failed = peer ? getpeername(socket, out, &size) : getsockname(socket, out, &size);
  sockaddr_in result = {};
  if (failed == 0 && name.ss_family == AF_INET) std::memcpy(&result, &name, sizeof(result));
  return result;
}

bool SameName(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_family == AF_INET && b.sin_family == AF_INET && a.sin_port == b.sin_port &&
         a.sin_addr.s_addr == b.sin_addr.s_addr;
}

// The descriptor of this process that is the other end of `socket`; -1: none. Of two connections
// one name may be the same.
int OtherEnd(int socket) {
  const sockaddr_in own = NameOf(socket, false);
  const sockaddr_in other = NameOf(socket, true);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return -1;
  while (const dirent* entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    if (SameName(NameOf(fd, true), own) && SameName(NameOf(fd, false), other)) return fd;
  }
  return -1;
}

// Waits until the pair has accepted.
int Accepted(int socket) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  int fd = -1;
  while ((fd = OtherEnd(socket)) < 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return fd;
}

// Returns when the pair's connection is complete. Of two pairs the one with the lower address waits
// for the other to connect, so this one does.
void WaitUntilConnected(gloo::transport::Pair* pair) {
  sockaddr_storage above = {};
  auto& address = reinterpret_cast<sockaddr_in&>(above);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x7fffffff);
  address.sin_port = htons(65535);
  pair->connect(tcp::Address(above).bytes());
}

}  // namespace

LinkedContext::LinkedContext(int self, int size)
    : Context(self, size), links_(static_cast<size_t>(size)) {
  device_ = tcp::CreateDevice(tcp::attr(RandomLoopbackAddress().c_str()));
  tcp_ = device_->createContext(self, size);
  transportContext_ = std::make_shared<LinkedTransport>(this, self, size);
  BoundWaits(kPatience);  // it has none at first, not even 0, and pairs take it for theirs
}

void LinkedContext::BoundWaits(std::chrono::milliseconds timeout) {
  setTimeout(timeout);
  tcp_->setTimeout(timeout);
}

void LinkedContext::Link(int rank, OwnedFd socket) {
  const std::unique_ptr<gloo::transport::Pair>& pair = tcp_->createPair(rank);
  const tcp::Address listening(pair->address().bytes());
  const OwnedFd first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(first.get(), reinterpret_cast<const sockaddr*>(&listening.getSockaddr()),
              sizeof(sockaddr_in)) != 0) {
    throw std::runtime_error("cannot connect to a pair of Gloo's");
  }
  const int fd = Accepted(first.get());
  if (fd < 0) throw std::runtime_error("somebody else has connected to a pair of Gloo's");
  WaitUntilConnected(pair.get());
  fcntl(socket.get(), F_SETFL, fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  // What was there is closed, and with it its entry in the device's epoll.
  if (dup3(socket.get(), fd, O_CLOEXEC) != fd) throw std::runtime_error("cannot link a pair");
  links_[static_cast<size_t>(rank)] = std::move(socket);
  std::static_pointer_cast<tcp::Device>(device_)->registerDescriptor(
      fd, EPOLLIN, dynamic_cast<tcp::Handler*>(pair.get()));
}

void LinkedContext::Cut() {
  cut_ = true;
  for (const OwnedFd& link : links_) {
    if (link.get() >= 0) shutdown(link.get(), SHUT_RDWR);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (LinkedBuffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

void LinkedContext::Close() {
  Cut();
  closeConnections();
}

std::unique_ptr<gloo::transport::UnboundBuffer> LinkedTransport::createUnboundBuffer(void* data,
                                                                                     size_t bytes) {
  return std::make_unique<LinkedBuffer>(&context_, context_.tcp_->createUnboundBuffer(data, bytes));
}

LinkedBuffer::LinkedBuffer(LinkedContext* context,
                           std::unique_ptr<gloo::transport::UnboundBuffer> buffer)
    : UnboundBuffer(buffer->ptr, buffer->size), context_(*context), buffer_(std::move(buffer)) {
  const std::lock_guard<std::mutex> lock(context_.mutex_);
  context_.buffers_.insert(this);
}

LinkedBuffer::~LinkedBuffer() {
  const std::lock_guard<std::mutex> lock(context_.mutex_);
  context_.buffers_.erase(this);
}

void LinkedBuffer::CheckLinked() const {
  if (context_.is_cut()) throw std::runtime_error("the connection was cut");
}

bool LinkedBuffer::waitRecv(int* rank, std::chrono::milliseconds timeout) {
  const bool done = buffer_->waitRecv(rank, timeout);
  if (!done) CheckLinked();
  return done;
}

bool LinkedBuffer::waitSend(int* rank, std::chrono::milliseconds timeout) {
  CheckLinked();
  const bool done = buffer_->waitSend(rank, timeout);
  if (!done) CheckLinked();
  return done;
}

}  // namespace chx::server
