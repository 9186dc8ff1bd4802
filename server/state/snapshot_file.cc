#include "server/state/snapshot_file.h"

#include <unistd.h>
// Without the library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace chx::server {
namespace {

constexpr char kMagic[16] = {'c', 'h', 'x', 'd', ' ', 's', 't', 'a',
                             't', 'e', ' ', 'v', '0', '0', '1', '\n'};
// So much is checksummed while it is in the cache.
constexpr size_t kPiece = size_t{512} << 10;

struct PartHeader {
  uint32_t kind;
  uint32_t number;
  uint64_t bytes;
};

absl::string_view BytesOf(const PartHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof(header)};
}

absl::Status FileError(absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " the snapshot"));
}

absl::Status Damaged(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("the snapshot is damaged: ", why));
}

}  // namespace

struct PartWriter::Hash {
  XXH3_state_t* const state = XXH3_createState();
  ~Hash() { XXH3_freeState(state); }
};
struct PartReader::Hash {
  XXH3_state_t* const state = XXH3_createState();
  ~Hash() { XXH3_freeState(state); }
};

PartWriter::PartWriter(int fd) : fd_(fd), hash_(std::make_unique<Hash>()) {}
PartWriter::~PartWriter() = default;

absl::Status PartWriter::Put(absl::string_view data) {
  total_ += data.size();
  while (!data.empty()) {
    const ssize_t written = write(fd_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FileError("write");
    data.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status PartWriter::Begin(PartKind kind, uint64_t bytes) {
  if (number_ == 0) {
    const absl::Status begun = Put({kMagic, sizeof(kMagic)});
    if (!begun.ok()) return begun;
  }
  const PartHeader header = {static_cast<uint32_t>(kind), number_++, bytes};
  left_ = bytes;
  XXH3_64bits_reset(hash_->state);
  XXH3_64bits_update(hash_->state, &header, sizeof(header));
  return Put(BytesOf(header));
}

absl::Status PartWriter::Append(absl::string_view data) {
  if (data.size() > left_) return absl::InternalError("a part is larger than was said");
  left_ -= data.size();
  while (!data.empty()) {
    const absl::string_view piece = data.substr(0, kPiece);
    XXH3_64bits_update(hash_->state, piece.data(), piece.size());
    absl::Status put = Put(piece);
    if (!put.ok()) return put;
    data.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status PartWriter::Finish() {
  if (left_ != 0) return absl::InternalError("a part is smaller than was said");
  const uint64_t hash = XXH3_64bits_digest(hash_->state);
  return Put({reinterpret_cast<const char*>(&hash), sizeof(hash)});
}

absl::Status PartWriter::Write(PartKind kind, absl::string_view data) {
  absl::Status status = Begin(kind, data.size());
  if (status.ok()) status = Append(data);
  return status.ok() ? Finish() : status;
}

absl::Status PartWriter::End() {
  absl::Status status = Write(PartKind::kEnd, "");
  if (!status.ok()) return status;
  return fsync(fd_) == 0 ? absl::OkStatus() : FileError("sync");
}

PartReader::PartReader(int fd) : fd_(fd), hash_(std::make_unique<Hash>()) {}
PartReader::~PartReader() = default;

absl::Status PartReader::Get(char* out, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(fd_, out, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read");
    if (got == 0) return Damaged("it ends early");
    out += got;
    bytes -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status PartReader::Next(PartKind* kind, uint64_t* bytes) {
  if (!begun_) {
    char magic[sizeof(kMagic)];
    const absl::Status got = Get(magic, sizeof(magic));
    if (!got.ok()) return got;
    if (std::memcmp(magic, kMagic, sizeof(kMagic)) != 0) {
      return Damaged("it does not begin as one of this version does");
    }
    begun_ = true;
  }
  PartHeader header;
  absl::Status got = Get(reinterpret_cast<char*>(&header), sizeof(header));
  if (!got.ok()) return got;
  if (header.kind > static_cast<uint32_t>(PartKind::kRecords) || header.number != number_++) {
    return Damaged("its parts are out of order");
  }
  XXH3_64bits_reset(hash_->state);
  XXH3_64bits_update(hash_->state, &header, sizeof(header));
  *kind = static_cast<PartKind>(header.kind);
  *bytes = left_ = header.bytes;
  if (*kind != PartKind::kEnd) return absl::OkStatus();
  if (header.bytes != 0) return Damaged("its end has contents");
  got = Finish();
  char more = 0;
  if (got.ok() && read(fd_, &more, 1) != 0) return Damaged("something follows its end");
  return got;
}

absl::Status PartReader::Read(char* out, size_t bytes) {
  if (bytes > left_) return Damaged("a part is too small");
  left_ -= bytes;
  while (bytes > 0) {
    const size_t piece = std::min(bytes, kPiece);
    const absl::Status got = Get(out, piece);
    if (!got.ok()) return got;
    XXH3_64bits_update(hash_->state, out, piece);
    out += piece;
    bytes -= piece;
  }
  return absl::OkStatus();
}

absl::Status PartReader::Finish() {
  if (left_ != 0) return Damaged("a part is too large");
  const uint64_t expected = XXH3_64bits_digest(hash_->state);
  uint64_t hash = 0;
  const absl::Status got = Get(reinterpret_cast<char*>(&hash), sizeof(hash));
  if (!got.ok()) return got;
  return hash == expected ? absl::OkStatus() : Damaged("a checksum is wrong");
}

absl::StatusOr<std::string> PartReader::Take(PartKind kind, uint64_t max_bytes) {
  PartKind found;
  uint64_t bytes = 0;
  absl::Status status = Next(&found, &bytes);
  if (!status.ok()) return status;
  if (found != kind || bytes > max_bytes) return Damaged("a part is not what belongs there");
  std::string data(bytes, '\0');
  status = Read(&data[0], data.size());
  if (status.ok()) status = Finish();
  if (!status.ok()) return status;
  return data;
}

}  // namespace chx::server
