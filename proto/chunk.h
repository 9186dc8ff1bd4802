// UploadChunk and DownloadChunk {1: header, 2: data} as raw slices: the data, which comes last, is
// neither copied into a message nor out of one.
#ifndef CHX_PROTO_CHUNK_H_
#define CHX_PROTO_CHUNK_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace chx {

inline constexpr size_t kChunkBytes = 512 << 10;

// `header` may be empty. `data` is referred to, not copied: it must outlive the buffer's use.
grpc::ByteBuffer MakeChunk(absl::string_view header, grpc::Slice data);

// One chunk, taken apart; `pieces` point into `slices`.
struct ParsedChunk {
  std::string header;
  std::vector<absl::string_view> pieces;
  std::vector<grpc::Slice> slices;
};
// Rejects whatever is not a header, data, or both in this order.
absl::Status ParseChunk(const grpc::ByteBuffer& buffer, ParsedChunk* chunk);

}  // namespace chx

#endif  // CHX_PROTO_CHUNK_H_
