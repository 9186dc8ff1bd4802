// A context of Gloo's over connections that are there already. Gloo's own rendezvous reads from
// whoever connects; here both sides of a connection have proved who they are before.
//
// Debian's libgloo-dev lacks a header without which tcp/pair.h cannot be included. So a pair gets
// its connection by what is public: it listens for some microseconds, at an address of this host's
// that is drawn at random, is connected to from here, and then its descriptor is made to be the
// other connection.
#ifndef CHX_SERVER_GLOO_LINKED_CONTEXT_H_
#define CHX_SERVER_GLOO_LINKED_CONTEXT_H_

#include <gloo/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/owned_fd.h"

namespace chx::server {

class LinkedBuffer;

// Has a device, and so a thread, of its own. Functions throw what Gloo throws.
class LinkedContext final : public gloo::Context {
 public:
  LinkedContext(int self, int size);
  // Takes the socket over, whatever comes of it.
  void Link(int rank, OwnedFd socket);
  // Cuts all connections, and whoever waits for a buffer gets an exception. Thread-safe after the
  // last Link.
  void Cut();
  bool is_cut() const { return cut_.load(); }
  // Cuts them, and has the device look at them no more: for as long as a connection's data has no
  // place to go to, it would look at nothing else. Waits for the device.
  void Close();
  // What collectives wait without a timeout of their own.
  void BoundWaits(std::chrono::milliseconds timeout);

 private:
  friend class LinkedBuffer;
  friend class LinkedTransport;

  std::shared_ptr<gloo::transport::Context> tcp_;
  std::vector<OwnedFd> links_;
  std::atomic<bool> cut_{false};
  std::mutex mutex_;
  std::set<LinkedBuffer*> buffers_;
};

// All buffers of a LinkedContext, also those that Gloo's collectives make for themselves.
class LinkedTransport final : public gloo::transport::Context {
 public:
  LinkedTransport(LinkedContext* context, int rank, int size)
      : Context(rank, size), context_(*context) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int rank) override {
    return context_.tcp_->getPair(rank);
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override {
    return context_.tcp_->createPair(rank);
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      size_t bytes) override;

 private:
  LinkedContext& context_;
};

// A buffer of Gloo's that Cut reaches. Gloo forgets whoever waits for a transfer that has begun
// when the connection fails.
class LinkedBuffer final : public gloo::transport::UnboundBuffer {
 public:
  LinkedBuffer(LinkedContext* context, std::unique_ptr<gloo::transport::UnboundBuffer> buffer);
  ~LinkedBuffer() override;

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override;
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override;
  void abortWaitRecv() override { buffer_->abortWaitRecv(); }
  void abortWaitSend() override { buffer_->abortWaitSend(); }
  void send(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, uint64_t slot, size_t offset, size_t bytes) override {
    buffer_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  void CheckLinked() const;

  LinkedContext& context_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_GLOO_LINKED_CONTEXT_H_
