// The check of a client's token.
#ifndef CHX_PROTO_TOKEN_H_
#define CHX_PROTO_TOKEN_H_

#include "absl/strings/string_view.h"

namespace chx {

// Takes the same time wherever the first difference is.
inline bool SameToken(absl::string_view a, absl::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace chx

#endif  // CHX_PROTO_TOKEN_H_
