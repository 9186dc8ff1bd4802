// The encoding of SharedPlace: two 64-bit words.
#include <cstring>

#include "ops/error.h"
#include "proto/command.h"

namespace chx {

std::string EncodeSharedPlace(const SharedPlace& place) {
  const uint64_t words[] = {place.segment, place.offset};
  return std::string(reinterpret_cast<const char*>(words), sizeof(words));
}

absl::StatusOr<SharedPlace> DecodeSharedPlace(absl::string_view data) {
  uint64_t words[2];
  if (data.size() != sizeof(words)) {
    return ValueError("[fetch] expects a place of ", sizeof(words), " bytes, got ", data.size());
  }
  std::memcpy(words, data.data(), sizeof(words));
  if (words[0] > UINT32_MAX) {
    return ValueError("[fetch] expects a segment's number, got ", words[0]);
  }
  return SharedPlace{static_cast<uint32_t>(words[0]), words[1]};
}

}  // namespace chx
