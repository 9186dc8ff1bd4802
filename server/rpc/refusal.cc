#include "server/rpc/refusal.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "proto/refusal.h"
#include "server/log/log.h"
#include "server/observability/counters.h"
#include "server/rpc/admission.h"

namespace chx::server {
namespace {

Refusal KindOfRefusal(const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) return Refusal::kToken;
  return absl::IsResourceExhausted(status) ? Refusal::kLimit : Refusal::kOther;
}

}  // namespace

void Refuse(int socket, const absl::Status& status) {
  const std::string frame = RefusalFrame(status);
  static_cast<void>(send(socket, frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  // A client that finds its own write refused looks for a last word, too.
  DiscardUnread(socket);
  close(socket);
}

void LogRefusal(const PeerInfo& peer, const absl::Status& status) {
  Refusals()[static_cast<size_t>(KindOfRefusal(status))].Add();
  static auto* const limit = new LogLimit;
  Log(limit, LogLevel::kWarning, "client refused",
      {{"peer", PeerName(peer)}, {"reason", status.message()}});
}

}  // namespace chx::server
