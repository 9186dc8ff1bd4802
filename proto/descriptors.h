// Descriptors that go from process to process over a Unix socket.
#ifndef CHX_PROTO_DESCRIPTORS_H_
#define CHX_PROTO_DESCRIPTORS_H_

#include <sys/types.h>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace chx {

inline constexpr size_t kMaxSentDescriptors = 64;

// Sends a packet with copies of at most kMaxSentDescriptors descriptors. Returns what sendmsg does;
// `flags` are its flags beside MSG_NOSIGNAL. Goes on after signals.
ssize_t SendWithDescriptors(int socket, absl::string_view packet, absl::Span<const int> descriptors,
                            int flags);

}  // namespace chx

#endif  // CHX_PROTO_DESCRIPTORS_H_
