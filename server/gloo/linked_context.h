// A context of Gloo's over connections that are there already. Gloo's own rendezvous reads from
// whoever connects; here both sides of a connection have proved who they are before.
//
// Debian's libgloo-dev lacks a header without which tcp/pair.h cannot be included. So a pair gets
// its connection by what is public: it listens at an address that nobody can guess, is connected to
// from here, and then its descriptor is made to be the other connection.
#ifndef CHX_SERVER_GLOO_LINKED_CONTEXT_H_
#define CHX_SERVER_GLOO_LINKED_CONTEXT_H_

#include <gloo/context.h>

#include <memory>
#include <string>
#include <vector>

#include "base/owned_fd.h"

namespace chx::server {

// Has a device, and so a thread, of its own. Functions throw what Gloo throws.
class LinkedContext final : public gloo::Context {
 public:
  LinkedContext(int self, int size);
  // Takes the socket over, whatever comes of it.
  void Link(int rank, OwnedFd socket);
  // Cuts all connections: whoever waits for one gets an exception. Thread-safe after the last Link.
  void Cut() const;

 private:
  std::vector<OwnedFd> links_;
};

}  // namespace chx::server

#endif  // CHX_SERVER_GLOO_LINKED_CONTEXT_H_
