// The first frame of a connection, which says whether its peer may come in.
#ifndef CHX_SERVER_FRONT_HELLO_H_
#define CHX_SERVER_FRONT_HELLO_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/frame.h"
#include "server/front/guests.h"

namespace chx::server {

// A Hello's frame, header and all, has at most so many bytes.
inline constexpr size_t kMaxHelloFrame = kFrameHeaderBytes + kMaxHelloBytes;

// kPartial: nothing wrong so far. kBad: no Hello. kPlain: no TLS where it is expected. kDenied: a
// Hello of a stranger.
enum class HelloCheck { kPartial, kBad, kPlain, kDenied, kGood };

// `received` is what has come so far, and may be more than the frame. `proof` as for Guests.
HelloCheck CheckHello(absl::string_view received, const Guests& guests, Proof* proof);

// The frame that tells a peer why it is not let in: an answer to its first call.
std::string RefusalFrame(HelloCheck why);

}  // namespace chx::server

#endif  // CHX_SERVER_FRONT_HELLO_H_
