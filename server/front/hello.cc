#include "server/front/hello.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "proto/chxd.pb.h"
#include "proto/refusal.h"

namespace chx::server {

HelloCheck CheckHello(absl::string_view received, const Guests& guests, Proof* proof) {
  FrameHeader header = {0, static_cast<uint32_t>(FrameKind::kHello)};
  // What is there of the header, over one that is right: a wrong start is seen at once.
  std::memcpy(&header, received.data(), std::min(received.size(), sizeof(header)));
  if (header.kind != static_cast<uint32_t>(FrameKind::kHello)) return HelloCheck::kBad;
  if (header.bytes > kMaxHelloBytes) return HelloCheck::kBad;
  if (received.size() < sizeof(header) + header.bytes) return HelloCheck::kPartial;
  received.remove_prefix(sizeof(header));
  v1::Hello hello;
  if (!hello.ParseFromArray(received.data(), static_cast<int>(header.bytes))) {
    return HelloCheck::kBad;
  }
  const bool known = guests.Admits(hello.token(), absl::Now(), proof);
  return known ? HelloCheck::kGood : HelloCheck::kDenied;
}

std::string RefusalFrame(HelloCheck why) {
  switch (why) {
    case HelloCheck::kDenied:
      return chx::RefusalFrame(absl::UnauthenticatedError("this daemon expects a valid token"));
    case HelloCheck::kPlain:
      return chx::RefusalFrame(absl::UnavailableError(
          "this port expects TLS; connect with tls_roots, the file with the certificate of the "
          "authority that has signed the daemon's"));
    default:
      return chx::RefusalFrame(absl::InvalidArgumentError(
          "this is a chxd daemon: it expects frames that begin with a Hello"));
  }
}

}  // namespace chx::server
