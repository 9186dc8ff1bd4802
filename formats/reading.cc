#include "formats/reading.h"

#include <algorithm>

#include "ops/error.h"

namespace chx {
namespace {

constexpr uint64_t kPiece = 16 << 20;

}  // namespace

absl::Status ReadString(ReadFn read, uint64_t bytes, std::string* out) {
  out->clear();
  while (out->size() < bytes) {
    const size_t have = out->size();
    const size_t piece = static_cast<size_t>(std::min<uint64_t>(kPiece, bytes - have));
    out->resize(have + piece);
    CHX_RETURN_IF_ERROR(read(&(*out)[have], piece));
  }
  return absl::OkStatus();
}

}  // namespace chx
